// What monitoring is told: how long RPCs and LVM's commands took, and how the pools stand when it asks.
// docs/metrics.md lists it all.
#pragma once

#include <functional>
#include <string>

#include "base/subprocess.h"
#include "csi/edge.h"
#include "daemon/monitoring/metrics.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Thread-safe.
class Exporter {
 public:
  Exporter();

  void Observe(const csi::RpcOutcome& rpc);
  // A command of LVM's, by its verb.
  void Observe(const Command& command, std::chrono::duration<double> took);
  // Asked at each Text; not set: none. Before anything else is called.
  void CountLostLines(std::function<uint64_t()> lost) { lost_lines_ = std::move(lost); }
  // Everything, with the engine's figures of this moment. What the engine cannot tell now is left out.
  std::string Text(engine::Engine& engine, Subprocess& children, const std::string& version) const;

 private:
  std::function<uint64_t()> lost_lines_ = [] { return uint64_t{0}; };
  Metrics metrics_;
  Metrics::Timings& rpcs_;
  Metrics::Timings& commands_;
};

}  // namespace quarry::daemon
