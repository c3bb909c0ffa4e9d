// quarryd's COSI server over buckets in memory, behind a real unix socket.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <string>

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "base/scratch_folder.h"
#include "cosi/server.h"
#include "csi/call_history.h"
#include "tests/cosi/memory_buckets.h"
#include "tests/unit/read_all.h"

namespace quarry::cosi {

class CosiHarness {
 public:
  CosiHarness() {
    auto made =
        Server::Start({.socket = *AbsolutePath::Parse(socket()), .driver_name = "n-node1.s3.quarry.local"},
                      buckets, history, log_);
    EXPECT_TRUE(made.has_value()) << made.error().message();
    server_ = std::move(*made);
    channel = grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials());
  }
  ~CosiHarness() {
    server_.reset();
    close(log_fd_);
  }

  std::string socket() const { return directory_.path() + "/cosi.sock"; }
  std::string Logged() { return ReadAll(log_fd_); }

  cosi_check::MemoryBuckets buckets;
  csi::CallHistory history;

 private:
  const ScratchFolder directory_ = ScratchFolder::Make("/tmp/quarry-cosi-XXXXXX").value();
  int log_fd_ = memfd_create("log", MFD_CLOEXEC);
  Logger log_{LogLevel::kDebug, LogFormat::kJson, log_fd_};
  std::unique_ptr<Server> server_;

 public:
  std::shared_ptr<grpc::Channel> channel;
};

}  // namespace quarry::cosi
