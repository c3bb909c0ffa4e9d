#include "daemon/daemon.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/log_writer.h"
#include "base/mutex.h"
#include "cosi/server.h"
#include "csi/kubelet/registrar.h"
#include "csi/server.h"
#include "daemon/locking/group_locks.h"
#include "daemon/locking/lock_folder.h"
#include "daemon/locking/node_lock.h"
#include "daemon/monitoring/exporter.h"
#include "daemon/monitoring/metrics_server.h"
#include "daemon/monitoring/statsd.h"
#include "daemon/on_change/change_hook.h"
#include "daemon/process/endpoint.h"
#include "daemon/process/memory_keeper.h"
#include "daemon/process/signals.h"
#include "daemon/process/watchdog.h"
#include "daemon/reload_requests.h"
#include "daemon/upkeep/disk_watcher.h"
#include "daemon/upkeep/health_watcher.h"
#include "daemon/upkeep/starter.h"
#include "daemon/upkeep/store_tender.h"
#include "daemon/upkeep/trimmer.h"
#include "daemon/upkeep/watcher.h"
#include "daemon/wiring/node_buckets.h"
#include "daemon/wiring/node_world.h"
#include "engine/disks/join.h"
#include "engine/engine.h"
#include "lvm/run/lvm_config.h"

namespace quarry::daemon {
namespace {

using std::chrono::milliseconds;

// Service managers and the kubelet wait 30 s or more between SIGTERM and SIGKILL. These limits fit into that
// time.
constexpr milliseconds kDrain{20000};      // calls in flight may finish by themselves
constexpr milliseconds kReplies{2000};     // finished calls may still have to send their replies
constexpr milliseconds kHardLimit{28000};  // the whole stop, cancelled calls included
constexpr milliseconds kSignalPoll{50};
// An administrator may be repairing a file system that cannot be mounted.
constexpr Backoff kMountBackoff{milliseconds(1000), milliseconds(60000)};
// Mesos gives a plugin 60 s to create its socket. It treats the first error from that socket as final.
constexpr milliseconds kSocketPatience{45000};
constexpr milliseconds kReloadLimit{15000};  // for the end of a reload, once a stop is requested
constexpr milliseconds kLastWords{500};      // for the log to be written before the process exits at once

// One quarryd per socket. Volume groups are locked elsewhere (FlockGroupLocks): their start waits for the
// lock.
Result<std::vector<NodeLock>> TakeLocks(const Options& options, const AbsolutePath& socket) {
  std::vector<std::pair<AbsolutePath, std::string_view>> sockets = {{socket, ""}};
  if (options.metrics.has_value() && options.metrics->socket.has_value()) {
    sockets.emplace_back(*options.metrics->socket, "");
  }
  if (options.admin_endpoint.has_value()) {
    sockets.emplace_back(*options.admin_endpoint, " (--admin-endpoint)");
  }
  if (options.registration_socket.has_value()) {
    sockets.emplace_back(*options.registration_socket, " (--kubelet-dir)");
  }
  if (options.buckets.cosi_endpoint.has_value()) {
    sockets.emplace_back(*options.buckets.cosi_endpoint, " (--cosi-endpoint)");
  }
  std::vector<NodeLock> locks;
  for (const auto& [path, setting] : sockets) {
    QUARRY_ASSIGN(NodeLock lock, NodeLock::Take(kLockDirectory, "socket-" + path.str(),
                                                fmt::format("socket '{}' belongs to another quarryd{}",
                                                            path.str(), setting)));
    locks.push_back(std::move(lock));
  }
  return locks;
}

csi::ServerConfig ServerConfigOf(const Options& options, const AbsolutePath& socket,
                                 const std::string& version, Exporter& exporter, bucket::BucketApi* buckets,
                                 csi::ReloadSettings reload) {
  return {.socket = socket,
          .admin_socket = options.admin_endpoint,
          .mode = options.mode,
          .plugin = {.driver_name = options.driver_name,
                     .version = version,
                     .here = csi::NodeTopology(options.driver_name, options.node),
                     .alpha = options.alpha,
                     .max_volumes = options.max_volumes,
                     .expand_on_node = options.expand == engine::ExpandBy::kNode},
          .patient = options.patient,
          .buckets = buckets,
          .reload = std::move(reload),
          .observe = [&exporter](const csi::RpcOutcome& rpc) { exporter.Observe(rpc); }};
}

// Exits the process if the stop takes too long, or when a second stop signal arrives.
void LimitStop(const std::stop_token& done, const Logger& log, LogWriter& writer) {
  const auto deadline = std::chrono::steady_clock::now() + kHardLimit;
  while (!done.stop_requested()) {
    const bool again = WaitForStopSignal(kSignalPoll).has_value();
    if (again || std::chrono::steady_clock::now() > deadline) {
      log.Error("exiting at once", {{"detail", again ? "second signal" : "the stop took too long"}});
      writer.Flush(kLastWords);
      _exit(1);
    }
  }
}

class Service {
 public:
  Service(const Options& options, const AbsolutePath& socket, const Logger& log, const LogWriter& writer,
          engine::StepWatcher* steps)
      : options_(options),
        socket_(socket),
        log_(log),
        steps_(steps),
        exporter_(std::bind_front(&LogWriter::lost, &writer)) {}

  Status Start(const std::string& version) {
    QUARRY_TRY(CheckLockFolder({.folder = lvm::LvmConfig{}.locking_dir}));
    QUARRY_ASSIGN(locks_, TakeLocks(options_, socket_));
    const auto observe = [this](const Command& command, std::chrono::duration<double> took) {
      exporter_.Observe(command, took);
    };
    QUARRY_ASSIGN(world_, NodeWorld::Make(options_, log_, observe, &group_locks_));
    engine::World world = world_->world();
    world.steps = steps_;
    engine::EngineConfig config = options_;
    config.memory_dir = PoolsFolder(options_);
    engine_ = std::make_unique<engine::Engine>(std::move(config), world, log_);
    if (options_.buckets.on()) {
      QUARRY_ASSIGN(buckets_, MakeBuckets(options_, *engine_, log_, steps_));
    }
    QUARRY_TRY(ClaimSocket(socket_));
    if (options_.admin_endpoint.has_value()) {
      QUARRY_TRY(ClaimSocket(*options_.admin_endpoint).Context("--admin-endpoint"));
    }
    if (options_.buckets.cosi_endpoint.has_value()) {
      QUARRY_TRY(ClaimSocket(*options_.buckets.cosi_endpoint).Context("--cosi-endpoint"));
    }
    WatchForDisks(world.udev);
    if (options_.patient) {
      StartEngine();
      WaitForEngine();
    }
    const auto page = [this, &children = world.children, version] {
      return exporter_.Text(*engine_, children, version, buckets_.get());
    };
    if (options_.metrics.has_value()) {
      const MetricsPages pages = {page, [this] { return Exporter::Problem(*engine_); }};
      QUARRY_ASSIGN(metrics_, MetricsServer::Start(*options_.metrics, pages).Context("--metrics-address"));
    }
    page_ = page;
    SendMetrics(options_.statsd);
    QUARRY_ASSIGN(server_,
                  csi::Server::Start(ServerConfigOf(options_, socket_, version, exporter_, buckets_.get(),
                                                    std::bind_front(&ReloadRequests::Ask, &reloads_)),
                                     *engine_, log_));
    QUARRY_TRY(ServeCosi());
    if (!options_.patient) {
      StartEngine();
    }
    if (buckets_ != nullptr) {
      bucket_keeper_ = KeepBuckets(*buckets_);
      request_counter_ = CountRequests(*buckets_);
    }
    TellOfChanges(options_.on_change);
    const auto looked = [this] {
      const MutexLock lock(hook_mutex_);
      if (change_hook_ != nullptr) {
        change_hook_->Wake();
      }
    };
    for (const engine::PoolConfig& pool : options_.pools) {
      QUARRY_ASSIGN(auto watcher, Watcher::Start(*engine_, world.udev, log_, pool.name, looked));
      watchers_.push_back(std::move(watcher));
    }
    engine_->upkeep().OnWork([this] { WakeWatchers(); });
    WakeWatchers();  // for work that came before
    PollHealth(options_.health_interval);
    if (options_.trim_interval.count() > 0) {
      trimmer_ = TrimBySchedule(*engine_, clock_, log_, options_.trim_interval);
    }
    for (const engine::PoolConfig& pool : options_.pools) {
      store_tenders_.push_back(TendStores(*engine_, pool.name, clock_, log_));
    }
    return Register();  // last: the kubelet calls at once
  }

  // What a reload can change without its level of the log. The functions are called by the thread that calls
  // Start and Stop.
  Appliers Changeable() {
    return {{"health-interval", [this](const Options& options) { PollHealth(options.health_interval); }},
            {"statsd-address", [this](const Options& options) { SendMetrics(options.statsd); }},
            {"on-change", [this](const Options& options) { TellOfChanges(options.on_change); }}};
  }

  // What quarryctl asks for. The thread that calls Start and Stop answers.
  ReloadRequests& reloads() { return reloads_; }

  // For the watchdog: whether calls are answered. Neither part waits for a disk.
  bool Works(milliseconds limit) {
    engine_->lifecycle().TouchLocks();
    return server_->Answers(limit);
  }

  void Refuse() { engine_->lifecycle().Refuse(); }

  // The engine refuses new calls first. Callers therefore get an answer until the socket is closed.
  Status Stop() {
    engine_->lifecycle().Refuse();
    reloads_.Close();
    statsd_.request_stop();
    const std::unique_ptr<ChangeHook> hook = TakeHook();
    if (hook != nullptr) {
      hook->RequestStop();
    }
    registrar_.reset();  // the kubelet stays registered: a restart is more likely than the end
    for (auto* const list : {&starters_, &mounters_}) {
      for (const auto& starter : *list) {
        starter->RequestStop();  // all at once: each may have to end an LVM command
      }
    }
    starters_.clear();
    mounters_.clear();
    bucket_keeper_.request_stop();
    for (std::jthread& tender : store_tenders_) {
      tender.request_stop();
    }
    trimmer_ = {};  // stops the thread and waits for it
    store_tenders_.clear();
    disk_watcher_ = {};
    health_watcher_ = {};
    engine_->upkeep().OnWork({});
    for (const auto& watcher : watchers_) {
      watcher->RequestStop();  // all at once: each may have to end an LVM command
    }
    watchers_.clear();
    bucket_keeper_ = {};
    request_counter_ = {};
    Status drained = engine_->lifecycle().Stop(CallWithin(kDrain));
    const milliseconds grace = drained.has_value() ? kReplies : milliseconds::zero();
    if (cosi_ != nullptr) {
      cosi_->Shutdown(grace);
    }
    server_->Shutdown(grace);
    return drained;
  }

 private:
  // Each pool starts on its own thread, and then gets the mounts that quarryctl asked for. No pool waits for
  // the start of another, or for LVM's work on the disks of another. Only the search for disks that match
  // device rules covers all pools together.
  void StartEngine() {
    for (const engine::PoolConfig& pool : options_.pools) {
      starters_.push_back(std::make_unique<Starter>(
          [this, name = pool.name](const Call& call) { return engine_->lifecycle().StartPool(name, call); },
          log_, Backoff{}, pool.name));
      if (options_.mode != csi::Mode::kController) {
        // Waits for the pool itself. Apart from its start, so that no caller waits for a file system check.
        mounters_.push_back(std::make_unique<Starter>(
            [this, name = pool.name, past = engine::KeptMounts()](const Call& call) mutable {
              return engine_->mounts().MountKept(name, past, call);
            },
            log_, kMountBackoff, pool.name,
            StarterWords{.done = "", .failed = "some volumes are not mounted yet, trying again"}));
      }
    }
  }

  Status ServeCosi() {
    if (options_.buckets.cosi_endpoint.has_value()) {
      QUARRY_ASSIGN(cosi_, cosi::Server::Start(
                               {.socket = *options_.buckets.cosi_endpoint,
                                .driver_name = options_.buckets.cosi_driver_name,
                                .observe = [this](const csi::RpcOutcome& rpc) { exporter_.Observe(rpc); }},
                               *buckets_, server_->history(), log_)
                               .Context("--cosi-endpoint"));
    }
    return Ok();
  }

  // Starts a repair round of each pool. The round logs each volume whose condition has changed.
  void WakeWatchers() {
    for (const auto& watcher : watchers_) {
      watcher->Wake();
    }
  }

  // The next three end what runs, wait for that, and begin again with the new setting.
  void PollHealth(std::chrono::seconds interval) {
    health_watcher_ = {};
    if (interval.count() > 0) {
      health_watcher_ = WatchHealth(*engine_, log_, interval, [this] { WakeWatchers(); });
    } else {
      engine_->disks().ForgetHealth();
    }
  }

  void SendMetrics(const std::optional<StatsdAddress>& address) {
    statsd_ = {};
    if (address.has_value()) {
      statsd_ = SendToStatsd(*address, page_, log_);
    }
  }

  // The file hands over from the hook before, as it does at a restart.
  void TellOfChanges(const std::optional<AbsolutePath>& command) {
    TakeHook().reset();
    if (!command.has_value()) {
      return;
    }
    auto hook = std::make_unique<ChangeHook>(
        ChangeHookConfig{
            .command = *command, .node = options_.node, .file = options_.state_dir + "/told.json"},
        [this](const Call& call) { return engine_->lifecycle().NodeStatus(call); }, hook_processes_, clock_,
        log_);
    const MutexLock lock(hook_mutex_);
    change_hook_ = std::move(hook);
  }

  std::unique_ptr<ChangeHook> TakeHook() {
    const MutexLock lock(hook_mutex_);
    return std::move(change_hook_);
  }

  Status Register() {
    if (options_.registration_socket.has_value()) {
      QUARRY_ASSIGN(registrar_, csi::kubelet::Registrar::Start(
                                    {.socket = *options_.registration_socket,
                                     .claim = &ClaimSocket,
                                     .driver_name = options_.driver_name,
                                     .endpoint = socket_,
                                     .observe = [this](const auto& said) { exporter_.Observe(said); }},
                                    log_)
                                    .Context("--kubelet-dir"));
    }
    return Ok();
  }

  // Called before the engine starts, so that no disk is missed. The start itself looks for disks, and the
  // watcher looks for disks that arrive in the meantime.
  void WatchForDisks(udev::UdevApi& udev) {
    if (std::ranges::none_of(options_.pools, engine::Claims)) {
      return;
    }
    auto events = NodeEvents::Listen(udev);
    if (!events.has_value()) {
      log_.Warning("new disks will not be noticed before quarryd is restarted",
                   {{"error", events.error().message()}});
      return;
    }
    disk_watcher_ = WatchDisks(*engine_, std::move(*events), log_);
  }

  // Waits until the start of every pool has been tried and at least one pool serves, until a stop signal
  // arrives, or for kSocketPatience at most. The signal stays pending for WaitForStopSignal.
  void WaitForEngine() const {
    const auto limit = std::chrono::steady_clock::now() + kSocketPatience;
    const auto settled = [this] {
      return std::ranges::all_of(starters_, [](const auto& starter) { return starter->tried(); }) &&
             std::ranges::any_of(starters_, [](const auto& starter) { return starter->done(); });
    };
    while (!settled() && !StopSignalPending() && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(kSignalPoll);
    }
  }

  const Options& options_;
  const AbsolutePath& socket_;
  const Logger& log_;
  engine::StepWatcher* const steps_;
  const SystemClock clock_;
  // Each member needs those above it.
  ReloadRequests reloads_{[] { kill(getpid(), kWakeSignal); }};
  Exporter exporter_;
  std::vector<NodeLock> locks_;
  FlockGroupLocks group_locks_{kLockDirectory, lvm::LvmConfig{}.locking_dir};
  std::unique_ptr<NodeWorld> world_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<bucket::Buckets> buckets_;  // nullptr: none are served
  std::unique_ptr<MetricsServer> metrics_;
  std::function<std::string()> page_;  // of metrics
  std::jthread statsd_;
  std::unique_ptr<csi::Server> server_;
  std::unique_ptr<cosi::Server> cosi_;  // nullptr: it is not served
  std::unique_ptr<csi::kubelet::Registrar> registrar_;
  std::vector<std::unique_ptr<Starter>> starters_, mounters_;
  std::vector<std::jthread> store_tenders_;  // one for each pool
  std::jthread trimmer_, disk_watcher_, bucket_keeper_, request_counter_;
  SpawnSubprocess hook_processes_;  // apart from those that may be stuck behind a disk
  Mutex hook_mutex_;
  std::unique_ptr<ChangeHook> change_hook_ ABSL_GUARDED_BY(hook_mutex_);  // nullptr: none is configured
  std::vector<std::unique_ptr<Watcher>> watchers_;                        // of each pool
  std::jthread health_watcher_;
};

// A reload looks at files and waits for threads, which may not answer: a stop signal that comes meanwhile
// must not wait for them.
void GuardReload(Service& service, const std::stop_token& done, const Logger& log, LogWriter& writer) {
  while (!done.stop_requested() && !StopSignalPending()) {
    Sleep(done, kSignalPoll);
  }
  if (done.stop_requested()) {
    return;  // the signal, if there is one, is taken next
  }
  service.Refuse();
  if (Sleep(done, kReloadLimit)) {
    log.Error("exiting at once",
              {{"detail", "a stop was requested, and reading the settings again does not end"}});
    writer.Flush(kLastWords);
    _exit(1);
  }
}

}  // namespace

int Run(const Loaded& loaded, const std::string& version, const Notifier& notifier,
        const LoadAgain& load_again, engine::StepWatcher* steps) {
  const Options& options = loaded.options;
  const Hangup hangup = MeaningOfHangup();
  BlockStopSignals(hangup);
  LogWriter writer(STDERR_FILENO, [format = options.log_format](uint64_t lost) {
    return LogLine(format, LogLevel::kWarning,
                   "log lines were lost: the reader of standard error was too slow",
                   {{"lines", static_cast<int64_t>(lost)}});
  });
  Logger log(options.log_level, options.log_format, writer);
  umask(077);
  csi::SendGrpcLogTo(log);
  if (const Status kept = KeepMemory(); !kept.has_value()) {
    log.Warning("a helper process could not be started: quarryd cannot exit while a disk does not answer",
                {{"error", kept.error().message()}});
  }

  if (!options.endpoint.has_value()) {
    log.Error("cannot start", {{"detail", "no endpoint is configured"}});
    return 1;
  }
  const AbsolutePath& socket = *options.endpoint;
  std::optional<Service> service(std::in_place, options, socket, log, writer, steps);
  // Until the service is destroyed: that too may wait, for an LVM command or for a disk.
  const auto limit = [&](const std::stop_token& done) { LimitStop(done, log, writer); };
  if (const Status started = service->Start(version); !started.has_value()) {
    log.Error("cannot start", {{"detail", started.error().message()}});
    if (StopSignalPending()) {
      (void)WaitForStopSignal();  // else the first signal would count as the second
    }
    const std::jthread stop_limit(limit);
    service.reset();
    return 1;
  }
  log.Info("serving", {{"version", version}, {"endpoint", socket.str()}, {"node", options.node}});
  notifier.Send("READY=1");
  std::jthread watchdog =
      KeepWatchdogQuiet(notifier, log, [&service](milliseconds within) { return service->Works(within); });

  GivenSettings given = loaded.given;
  Appliers appliers = service->Changeable();
  appliers["log-level"] = [&log](const Options& read) { log.SetLevel(read.log_level); };
  const auto reads_again = [&](int signal) {
    return signal == kWakeSignal || (signal == SIGHUP && hangup == Hangup::kReload);
  };
  int signal = WaitForSignal();
  for (; reads_again(signal); signal = WaitForSignal()) {
    if (signal == kWakeSignal && !service->reloads().pending()) {
      continue;  // the reading before answered that call too
    }
    const std::jthread guard([&](const std::stop_token& done) { GuardReload(*service, done, log, writer); });
    service->reloads().Begin();
    service->reloads().End(Reload(load_again, appliers, given, log));
  }
  watchdog.request_stop();
  const std::jthread stop_limit(limit);
  log.Info("stopping", {{"signal", int64_t{signal}}});
  notifier.Send("STOPPING=1");
  watchdog = {};  // from here on the limit of the stop holds
  const Status stopped = service->Stop();
  service.reset();
  if (!stopped.has_value()) {
    log.Warning("stopped, but calls were cut short", {{"detail", stopped.error().message()}});
    return 1;
  }
  log.Info("stopped");
  return 0;
}

}  // namespace quarry::daemon
