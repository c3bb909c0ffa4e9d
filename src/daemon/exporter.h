// What monitoring is told: how long RPCs and LVM's commands took, and how the pools stand when it asks.
// docs/metrics.md lists it all.
#pragma once

#include <string>

#include "base/subprocess.h"
#include "csi/edge.h"
#include "daemon/metrics.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Thread-safe.
class Exporter {
 public:
  Exporter();

  void Observe(const csi::RpcOutcome& rpc);
  // A command of LVM's, by its verb.
  void Observe(const Command& command, std::chrono::duration<double> took);
  // Everything, with the engine's figures of this moment. What the engine cannot tell now is left out.
  std::string Text(engine::Engine& engine, Subprocess& children, const std::string& version) const;

 private:
  Metrics metrics_;
  Metrics::Timings& rpcs_;
  Metrics::Timings& commands_;
};

}  // namespace quarry::daemon
