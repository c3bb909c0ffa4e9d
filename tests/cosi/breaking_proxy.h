// A driver that passes every call to a good one and then breaks one rule: the check has to notice.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <google/protobuf/message.h>
#include <grpcpp/channel.h>
#include <grpcpp/server.h>
#include <grpcpp/support/status.h>

namespace quarry::cosi_check {

// Gets the request, and the answer of the good driver, which it may change; returns the status to answer.
using Spoil = std::function<grpc::Status(const google::protobuf::Message& request,
                                         google::protobuf::Message& response, const grpc::Status& status)>;

class BreakingProxy {
 public:
  explicit BreakingProxy(const std::shared_ptr<grpc::Channel>& good);
  ~BreakingProxy();

  void SetSpoil(Spoil spoil);
  std::shared_ptr<grpc::Channel> channel();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quarry::cosi_check
