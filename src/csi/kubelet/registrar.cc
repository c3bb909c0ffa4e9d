#include "csi/kubelet/registrar.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <string_view>
#include <thread>

#include <fmt/format.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <pluginregistration/v1/registration.grpc.pb.h>

#include "base/call.h"
#include "base/mutex.h"
#include "csi/listener.h"

namespace quarry::csi::kubelet {
namespace {

namespace pb = ::pluginregistration;

constexpr const char* kPluginType = "CSIPlugin";
// The kubelet compares this with the versions of CSI that it speaks, and wants a major number of 1.
constexpr const char* kCsiVersion = "1.0.0";
constexpr std::chrono::seconds kLook{5};  // how often the socket's path is checked
// After which a kubelet that never asked is worth a warning. A kubelet that has tried the socket of an
// earlier start in vain may pause for up to 2 min.
constexpr std::chrono::minutes kSilence{3};
constexpr size_t kMostWords = 2000;   // of the kubelet's error in a log line
constexpr mode_t kFolderMode = 0755;  // as the kubelet makes it

// Makes the folder of the socket.
Status MakeFolderOf(const AbsolutePath& socket) {
  const AbsolutePath folder = socket.Parent();
  struct stat status{};
  if (stat(folder.Parent().c_str(), &status) != 0) {
    return ErrnoError(fmt::format("the kubelet's root folder '{}'", folder.Parent().str()));
  }
  if (mkdir(folder.c_str(), kFolderMode) != 0) {
    return errno == EEXIST ? Ok() : Status(ErrnoError(fmt::format("making the folder '{}'", folder.str())));
  }
  // The umask of this process may have taken bits away.
  if (chmod(folder.c_str(), kFolderMode) != 0) {
    return ErrnoError(fmt::format("setting the mode of the folder '{}'", folder.str()));
  }
  return Ok();
}

}  // namespace

// The service, its server, and a thread that keeps the socket in place.
class Registrar::State final : public pb::Registration::Service {
 public:
  State(const RegistrarConfig& config, const Logger& log)
      : config_(config), log_(log), patience_(config.first_patience) {}

  ~State() override {
    watcher_ = {};  // stops the thread and waits for it
    listener_.reset();
    if (server_) {
      server_->Shutdown(std::chrono::system_clock::now());
    }
  }

  Status Start() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (!server_) {
      return Error(Code::kInternal, "gRPC could not create the server for the kubelet");
    }
    {
      const MutexLock lock(mutex_);
      Tell();
    }
    if (const Status bound = Bind(); !bound.has_value()) {
      TellOnce(bound.error());
    }
    watcher_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
    return Ok();
  }

  grpc::Status GetInfo(grpc::ServerContext* /*context*/, const pb::InfoRequest* /*request*/,
                       pb::PluginInfo* response) override {
    response->set_type(kPluginType);
    response->set_name(config_.driver_name);
    response->set_endpoint(config_.endpoint.str());
    response->add_supported_versions(kCsiVersion);
    log_.Debug("the kubelet asks which driver this is");
    const MutexLock lock(mutex_);
    silent_ = SteadyTime::max();
    replace_at_.reset();
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(grpc::ServerContext* /*context*/,
                                        const pb::RegistrationStatus* request,
                                        pb::RegistrationStatusResponse* /*response*/) override {
    {
      const MutexLock lock(mutex_);
      said_.registered = request->plugin_registered();
      if (said_.registered) {
        patience_ = config_.first_patience;
      } else {
        ++said_.refusals;
        replace_at_ = std::chrono::steady_clock::now() + patience_;
        patience_ = std::min(patience_ * 2, config_.longest_patience);
        changed_.notify_all();
      }
      Tell();
    }
    if (request->plugin_registered()) {
      log_.Info("the kubelet has registered this driver",
                {{"driver", config_.driver_name}, {"endpoint", config_.endpoint.str()}});
    } else {
      log_.Warning("the kubelet has refused to register this driver",
                   {{"error", std::string_view(request->error()).substr(0, kMostWords)}});
    }
    return grpc::Status::OK;
  }

 private:
  Status Bind() {
    QUARRY_TRY(MakeFolderOf(config_.socket));
    QUARRY_TRY(config_.claim(config_.socket));
    {
      const MutexLock lock(mutex_);
      replace_at_.reset();
      silent_ = std::chrono::steady_clock::now() + kSilence;
    }
    QUARRY_ASSIGN(listener_, Listener::Start(config_.socket, *server_, peers_, Listener::AtEnd::kKeep));
    return Ok();
  }

  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (config_.observe) {
      config_.observe(said_);
    }
  }

  // Runs on the thread of `watcher_`, which alone uses `listener_` from then on.
  void Watch(const std::stop_token& stop) {
    while (Wait(stop)) {
      WarnOfSilence();
      const bool replace = MustBeReplaced();
      if (replace) {
        log_.Info("the kubelet has not asked again after its refusal: the registration socket is made anew",
                  {{"socket", config_.socket.str()}});
        listener_->file().Remove();
        listener_.reset();
      }
      if (listener_ && listener_->file().InPlace()) {
        continue;
      }
      listener_.reset();
      Forget();
      if (const Status bound = Bind(); !bound.has_value()) {
        TellOnce(bound.error());
        continue;
      }
      told_.clear();
      if (!replace) {
        log_.Info("the registration socket is in place again", {{"socket", config_.socket.str()}});
      }
    }
  }

  void TellOnce(const Error& error) {
    if (error.message() != told_) {
      told_ = error.message();
      log_.Warning("the registration socket cannot be bound: the kubelet does not find this driver",
                   {{"error", told_}});
    }
  }

  // Until the next look: after kLook, or when the socket has to be replaced. False: stop.
  bool Wait(const std::stop_token& stop) {
    const SteadyTime look = std::chrono::steady_clock::now() + kLook;
    MutexLock lock(mutex_);
    while (!stop.stop_requested()) {
      const SteadyTime until = std::min(look, replace_at_.value_or(look));
      if (std::chrono::steady_clock::now() >= until) {
        break;
      }
      const auto before = replace_at_;
      changed_.wait_until(lock, stop, until,
                          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return replace_at_ != before; });
    }
    return !stop.stop_requested();
  }

  bool MustBeReplaced() {
    const MutexLock lock(mutex_);
    return listener_ && listener_->file().InPlace() && replace_at_.has_value() &&
           std::chrono::steady_clock::now() >= *replace_at_;
  }

  // The kubelet forgets the driver of a socket that is gone.
  void Forget() {
    const MutexLock lock(mutex_);
    replace_at_.reset();
    if (said_.registered) {
      said_.registered = false;
      Tell();
    }
  }

  void WarnOfSilence() {
    const MutexLock lock(mutex_);
    if (std::chrono::steady_clock::now() > silent_) {
      silent_ = SteadyTime::max();
      log_.Warning(
          "no kubelet has looked at the registration socket; is --kubelet-dir the kubelet's root folder?",
          {{"socket", config_.socket.str()}});
    }
  }

  const RegistrarConfig config_;
  const Logger& log_;
  Mutex mutex_;
  kubelet::Registration said_ ABSL_GUARDED_BY(mutex_);
  // When to warn that no kubelet has asked since the socket was bound. max(): one has, or the warning was
  // given.
  SteadyTime silent_ ABSL_GUARDED_BY(mutex_);
  // When to replace the socket, unless the kubelet asks again before. nullopt: it has not refused.
  std::optional<SteadyTime> replace_at_ ABSL_GUARDED_BY(mutex_);
  std::chrono::milliseconds patience_ ABSL_GUARDED_BY(mutex_);  // after the next refusal
  std::string told_;  // the last failure to bind that was logged; for the thread of `watcher_`
  std::condition_variable_any changed_;
  Peers peers_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;  // none while the socket cannot be bound
  std::jthread watcher_;
};

Registrar::Registrar(std::unique_ptr<State> state) : state_(std::move(state)) {}
Registrar::~Registrar() = default;

Result<std::unique_ptr<Registrar>> Registrar::Start(const RegistrarConfig& config, const Logger& log) {
  auto state = std::make_unique<State>(config, log);
  QUARRY_TRY(state->Start());
  return std::unique_ptr<Registrar>(new Registrar(std::move(state)));
}

}  // namespace quarry::csi::kubelet
