// Registers this driver with the kubelet, by version 1 of its plugin registration: the kubelet watches its
// folder plugins_registry for sockets, asks each for the driver behind it, and says whether it registered the
// driver. So no node-driver-registrar is needed.
//
// A fresh node refuses at first: it does not know itself yet. Kubelets before 1.36 never ask again for a
// socket that they have refused, so the registrar replaces the socket after a refusal, unless the kubelet has
// asked again by itself. When a socket is removed, the kubelet removes the driver. So the file of the socket
// stays when quarryd stops. The kubelet registers the driver again when the next start replaces the socket.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/path.h"
#include "base/result.h"

namespace quarry::csi::kubelet {

// What the kubelet has said since the start.
struct Registration {
  bool registered = false;  // its last word about the socket that is there now
  uint64_t refusals = 0;
};

struct RegistrarConfig {
  // <kubelet's root folder>/plugins_registry/<name>.sock
  AbsolutePath socket;
  // Frees this path: removes a socket that no process serves. Called before each bind.
  std::function<Status(const AbsolutePath& path)> claim;
  std::string driver_name;
  AbsolutePath endpoint;  // the socket of CSI, by a path that the kubelet sees
  // Called at the start and when the registration has changed, on any thread. May be empty.
  std::function<void(const Registration&)> observe;
  // How long the kubelet may take to ask again after a refusal, before the socket is replaced. Doubles with
  // each refusal up to `longest_patience`, and so stays longer than the pauses of a kubelet that asks again.
  std::chrono::milliseconds first_patience{5000};
  std::chrono::milliseconds longest_patience{150000};
};

// Thread-safe.
class Registrar {
 public:
  // Serves at once. Makes the socket's folder, if the kubelet has not made it yet. While the socket cannot be
  // bound (no kubelet's root folder yet, something else at the path), and if it is removed or replaced later,
  // the registrar logs that once and tries again every 5 s. kInternal: gRPC has no resources. `log` outlives
  // the registrar.
  static Result<std::unique_ptr<Registrar>> Start(const RegistrarConfig& config, const Logger& log);
  // Cancels calls in flight. The file of the socket stays.
  ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

 private:
  class State;
  explicit Registrar(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quarry::csi::kubelet
