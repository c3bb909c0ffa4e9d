// Prints the capabilities that the plugin on a socket advertises, one a line: "controller
// CREATE_DELETE_VOLUME". Waits for a plugin that is still starting.
#include <iostream>

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

int Print(const std::string& socket) {
  CsiClient client(socket);
  client.set_wait_for_ready(true);
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

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: csi_capabilities SOCKET\n";
    return 2;
  }
  return Print(argv[1]);
}
