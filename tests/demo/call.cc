#include "tests/demo/call.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <chrono>
#include <memory>

#include "csi/v1/csi.grpc.pb.h"

namespace quarry::demo {
namespace {

namespace pb = google::protobuf;

const pb::MethodDescriptor* FindMethod(const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) {
    return nullptr;
  }
  const std::string service = name.substr(0, slash);
  const pb::FileDescriptor* file = csi::v1::CreateVolumeRequest::descriptor()->file();
  const pb::ServiceDescriptor* found = file->FindServiceByName(service.substr(service.rfind('.') + 1));
  return found == nullptr ? nullptr : found->FindMethodByName(name.substr(slash + 1));
}

grpc::Status Exchange(const std::string& socket, const std::string& path, const pb::Message& request,
                      pb::Message& response) {
  grpc::GenericStub stub(grpc::CreateChannel("unix://" + socket, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
  grpc::ByteBuffer out;
  grpc::ByteBuffer in;
  bool own = false;
  grpc::Status status = grpc::SerializationTraits<pb::Message>::Serialize(request, &out, &own);
  if (!status.ok()) {
    return status;
  }
  grpc::CompletionQueue queue;
  auto call = stub.PrepareUnaryCall(&context, path, out, &queue);
  call->StartCall();
  call->Finish(&in, &status, &queue);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return status.ok() ? grpc::SerializationTraits<pb::Message>::Deserialize(&in, &response) : status;
}

}  // namespace

Result<std::string> CallByName(const std::string& socket, const std::string& method,
                               const std::string& json) {
  const pb::MethodDescriptor* found = FindMethod(method);
  if (found == nullptr) {
    return Error(Code::kNotFound,
                 fmt::format("no method '{}'; one is csi.v1.Controller/ListVolumes", method));
  }
  auto* factory = pb::MessageFactory::generated_factory();
  const std::unique_ptr<pb::Message> request(factory->GetPrototype(found->input_type())->New());
  const std::unique_ptr<pb::Message> response(factory->GetPrototype(found->output_type())->New());
  const auto parsed = pb::util::JsonStringToMessage(json.empty() ? "{}" : json, request.get());
  if (!parsed.ok()) {
    return Error(Code::kInvalidArgument, parsed.ToString());
  }
  const std::string path = fmt::format("/{}/{}", found->service()->full_name(), found->name());
  const grpc::Status status = Exchange(socket, path, *request, *response);
  if (!status.ok()) {
    return Error(Code::kUnavailable, fmt::format("gRPC code {}: {}", static_cast<int>(status.error_code()),
                                                 status.error_message()));
  }
  pb::util::JsonPrintOptions options;
  options.add_whitespace = true;
  std::string text;
  (void)pb::util::MessageToJsonString(*response, &text, options);
  return text;
}

}  // namespace quarry::demo
