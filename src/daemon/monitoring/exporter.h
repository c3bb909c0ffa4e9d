// Collects what monitoring reads: how long RPCs and LVM commands took, and the state of the pools at the time
// of the request. docs/metrics.md lists all metrics.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "base/subprocess.h"
#include "bucket/buckets.h"
#include "csi/edge.h"
#include "csi/kubelet/registrar.h"
#include "daemon/monitoring/metrics.h"
#include "engine/engine.h"

namespace quarry::daemon {

// Thread-safe.
class Exporter {
 public:
  // `lost_lines` is called at each Text.
  explicit Exporter(std::function<uint64_t()> lost_lines) : lost_lines_(std::move(lost_lines)) {}

  void Observe(const csi::RpcOutcome& rpc);
  void Observe(const csi::kubelet::Registration& registration);
  // Counts an LVM command under its verb.
  void Observe(const Command& command, std::chrono::duration<double> took);
  // All metrics, with the engine's current figures. Figures that the engine cannot give now are left out.
  // `buckets`: nullptr if this process serves none.
  std::string Text(engine::Engine& engine, Subprocess& children, const std::string& version,
                   const bucket::Buckets* buckets = nullptr) const;
  // Why no pool serves now; empty: at least one serves.
  static std::string Problem(engine::Engine& engine);

 private:
  const std::function<uint64_t()> lost_lines_;
  Metrics metrics_;
  const Metrics::Timings rpcs_ =
      metrics_.AddTimings("quarry_rpc_duration_seconds", "Duration of RPCs, by result");
  const Metrics::Timings commands_ =
      metrics_.AddTimings("quarry_lvm_command_duration_seconds", "Duration of LVM commands");
  mutable Mutex mutex_;
  std::optional<csi::kubelet::Registration> registration_ ABSL_GUARDED_BY(mutex_);  // none: no kubelet
};

}  // namespace quarry::daemon
