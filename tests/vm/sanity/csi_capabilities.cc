// Prints the capabilities that the plugin on a socket advertises through v1 or v0, one on each line:
// "controller CREATE_DELETE_VOLUME". Waits for a plugin that is still starting, until Probe says ready: the
// suites take a call that says "starting" for a failure.
#include <chrono>
#include <iostream>
#include <string_view>
#include <thread>

#include <csi/v0/csi.grpc.pb.h>
#include <grpcpp/create_channel.h>

#include "tests/vm/kit/csi_client.h"

namespace {

using quarry::vm::CsiClient;
namespace v1 = csi::v1;

template <typename Reply>
bool Failed(const char* call, const Reply& reply) {
  if (!reply.ok()) {
    std::cerr << call << ": " << reply.text() << "\n";
  }
  return !reply.ok();
}

bool WaitUntilReady(const std::string& socket) {
  CsiClient client(socket);
  client.set_wait_for_ready(true);
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  while (std::chrono::steady_clock::now() < until) {
    const auto probed = client.Probe();
    if (Failed("Probe", probed)) {
      return false;
    }
    if (!probed.value.has_ready() || probed.value.ready().value()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::cerr << "Probe: not ready after two minutes\n";
  return false;
}

int Print(const std::string& socket) {
  CsiClient client(socket);
  const auto plugin = client.Invoke(client.identity(), &v1::Identity::Stub::GetPluginCapabilities,
                                    v1::GetPluginCapabilitiesRequest());
  const auto controller = client.Invoke(client.controller(), &v1::Controller::Stub::ControllerGetCapabilities,
                                        v1::ControllerGetCapabilitiesRequest());
  const auto node =
      client.Invoke(client.node(), &v1::Node::Stub::NodeGetCapabilities, v1::NodeGetCapabilitiesRequest());
  if (Failed("GetPluginCapabilities", plugin) || Failed("ControllerGetCapabilities", controller) ||
      Failed("NodeGetCapabilities", node)) {
    return 1;
  }
  for (const auto& capability : plugin.value.capabilities()) {
    if (capability.has_service()) {
      std::cout << "plugin " << v1::PluginCapability::Service::Type_Name(capability.service().type()) << "\n";
    } else {
      std::cout << "expansion "
                << v1::PluginCapability::VolumeExpansion::Type_Name(capability.volume_expansion().type())
                << "\n";
    }
  }
  for (const auto& capability : controller.value.capabilities()) {
    std::cout << "controller " << v1::ControllerServiceCapability::RPC::Type_Name(capability.rpc().type())
              << "\n";
  }
  for (const auto& capability : node.value.capabilities()) {
    std::cout << "node " << v1::NodeServiceCapability::RPC::Type_Name(capability.rpc().type()) << "\n";
  }
  return 0;
}

int PrintV0(const std::string& socket) {
  namespace v0 = csi::v0;
  const auto channel = grpc::CreateChannel("unix://" + socket, grpc::InsecureChannelCredentials());
  const auto ask = [](const char* call, auto& stub, auto method, const auto& request, auto& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(2));
    const grpc::Status status = (stub.*method)(&context, request, &response);
    if (!status.ok()) {
      std::cerr << call << ": " << status.error_message() << "\n";
    }
    return status.ok();
  };
  v0::ControllerGetCapabilitiesResponse controller;
  v0::NodeGetCapabilitiesResponse node;
  if (!ask("ControllerGetCapabilities", *v0::Controller::NewStub(channel),
           &v0::Controller::Stub::ControllerGetCapabilities, v0::ControllerGetCapabilitiesRequest(),
           controller) ||
      !ask("NodeGetCapabilities", *v0::Node::NewStub(channel), &v0::Node::Stub::NodeGetCapabilities,
           v0::NodeGetCapabilitiesRequest(), node)) {
    return 1;
  }
  for (const auto& capability : controller.capabilities()) {
    std::cout << "controller " << v0::ControllerServiceCapability::RPC::Type_Name(capability.rpc().type())
              << "\n";
  }
  for (const auto& capability : node.capabilities()) {
    std::cout << "node " << v0::NodeServiceCapability::RPC::Type_Name(capability.rpc().type()) << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool v0 = argc == 3 && std::string_view(argv[2]) == "v0";
  if (argc != 2 && !v0) {
    std::cerr << "usage: csi_capabilities SOCKET [v0]\n";
    return 2;
  }
  if (!WaitUntilReady(argv[1])) {
    return 1;
  }
  return v0 ? PrintV0(argv[1]) : Print(argv[1]);
}
