#include "daemon/settings/options.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <iterator>

#include <fmt/format.h>

#include "csi/topology.h"
#include "daemon/settings/layers.h"

namespace quarry::daemon {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Bytes kLeastExtent{kMiB};
constexpr Bytes kMostExtent{kGiB};
constexpr days kMonth{31};
constexpr days kYear{366};

// Sets the setting `kPlace` to what `kParse` makes of the text.
template <auto kPlace, auto kParse>
Status Set(Options& options, std::string_view text) {
  QUARRY_ASSIGN(options.*kPlace, kParse(text));
  return Ok();
}

// A whole number, or a duration as a whole number of its unit (hours, days, seconds).
template <typename T, uint64_t kMost>
Result<T> ParseUpTo(std::string_view text) {
  QUARRY_ASSIGN(const uint64_t value, ParseNumber(text));
  if (value > kMost) {
    return Wrong(fmt::format("at most {}", kMost), text);
  }
  return T(value);
}

Result<bool> ParseSeveralTargets(std::string_view text) {
  return ParseWord<bool>({{"allow", true}, {"refuse", false}}, text);
}

Result<engine::Fsck> ParseFsck(std::string_view text) {
  return ParseWord<engine::Fsck>({{"off", engine::Fsck::kOff}, {"preen", engine::Fsck::kPreen}}, text);
}

Result<engine::ExpandBy> ParseExpand(std::string_view text) {
  using engine::ExpandBy;
  return ParseWord<ExpandBy>({{"controller", ExpandBy::kController}, {"node", ExpandBy::kNode}}, text);
}

Result<bool> ParseRepair(std::string_view text) {
  return ParseWord<bool>({{"auto", true}, {"manual", false}}, text);
}

Result<LvmBy> ParseLvmBy(std::string_view text) {
  return ParseWord<LvmBy>({{"zygote", LvmBy::kZygote}, {"spawn", LvmBy::kSpawn}}, text);
}

Status ApplyExtentSize(Options& options, std::string_view text) {
  QUARRY_ASSIGN(const Bytes size, ParseSize(text));
  if (!std::has_single_bit(size.value) || size < kLeastExtent || size > kMostExtent) {
    return Wrong(
        fmt::format("a power of two from {} to {}", HumanBytes(kLeastExtent), HumanBytes(kMostExtent)), text);
  }
  options.extent_size = size;
  return Ok();
}

Status ApplyDefaultSize(Options& options, std::string_view text) {
  QUARRY_ASSIGN(options.default_size, ParseSize(text));
  if (options.default_size.value == 0) {
    return Error(Code::kInvalidArgument, "must not be 0");
  }
  return Ok();
}

Status ApplyStuckLimit(Options& options, std::string_view text) {
  QUARRY_ASSIGN(options.stuck_limit, ParseNumber(text));
  if (options.stuck_limit == 0) {
    return Error(Code::kInvalidArgument, "must not be 0: no LVM command could ever start");
  }
  return Ok();
}

Status ApplyScrubHours(Options& options, std::string_view text) {
  constexpr uint64_t kDay = 24;
  const size_t hyphen = text.find('-');
  const auto first = ParseNumber(text.substr(0, hyphen));
  const auto last = ParseNumber(hyphen == std::string_view::npos ? "" : text.substr(hyphen + 1));
  if (!first.has_value() || !last.has_value() || *first >= kDay || *last > kDay || *first == *last) {
    return Wrong("two hours of the day such as 1-5 or 22-6", text);
  }
  options.scrub_hours = {static_cast<uint32_t>(*first), static_cast<uint32_t>(*last)};
  return Ok();
}

// A piece has at least 1 MiB, so a lower rate would mean long pauses.
Result<Bytes> ParseZeroFreeRate(std::string_view text) {
  QUARRY_ASSIGN(const Bytes rate, ParseSize(text));
  return rate.value == 0 || rate >= kMiB ? Result<Bytes>(rate) : Wrong("0, or at least 1MiB", text);
}

Status ApplyRebuildRate(Options& options, std::string_view text) {
  QUARRY_ASSIGN(const Bytes rate, ParseSize(text));
  if (rate.value % kKiB.value != 0) {
    return Wrong("whole KiB", text);
  }
  options.rebuild_rate = rate;
  return Ok();
}

Status ApplyStateDir(Options& options, std::string_view text) {
  QUARRY_ASSIGN(const AbsolutePath path, AbsolutePath::Parse(text));
  options.state_dir = path.str();
  return Ok();
}

Status ApplyDriverName(Options& options, std::string_view text) {
  options.driver_name = text;
  return csi::CheckDriverName(text);
}

Status ApplyNodeId(Options& options, std::string_view text) {
  options.node = text;
  return csi::CheckNodeId(text);
}

Status ApplyAdminEndpoint(Options& options, std::string_view text) {
  options.admin_off = text == "off";
  if (!options.admin_off) {
    QUARRY_ASSIGN(options.admin_endpoint, ParseEndpoint(text));
  }
  return Ok();
}

Status ApplyKubeletDir(Options& options, std::string_view text) {
  options.kubelet_dir.reset();
  if (text != "off") {
    QUARRY_ASSIGN(options.kubelet_dir, AbsolutePath::Parse(text));
  }
  return Ok();
}

Status ApplyOnChange(Options& options, std::string_view text) {
  options.on_change.reset();
  if (text != "off") {
    QUARRY_ASSIGN(options.on_change, AbsolutePath::Parse(text));
  }
  return Ok();
}

// A setting of buckets.
template <auto kMember, auto kParse>
Status SetBucket(Options& options, std::string_view text) {
  QUARRY_ASSIGN(options.buckets.*kMember, kParse(text));
  return Ok();
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : std::string();
}

// Where the kubelet looks for the driver.
Status PlaceRegistration(Options& options) {
  if (!options.kubelet_dir.has_value()) {
    return Ok();
  }
  if (options.mode == csi::Mode::kController) {
    return Error(Code::kInvalidArgument,
                 "--kubelet-dir: the kubelet needs the node service, which --mode controller does not offer");
  }
  QUARRY_ASSIGN(options.registration_socket,
                ParseEndpoint(fmt::format("unix://{}/plugins_registry/{}-reg.sock",
                                          options.kubelet_dir->str(), options.driver_name))
                    .Context("--kubelet-dir"));
  return Ok();
}

// Refuses a socket that is given twice, or that the kubelet would take for another.
Status CheckSockets(const Options& options) {
  const std::array<std::pair<const char*, std::optional<AbsolutePath>>, 5> sockets = {{
      {"--cosi-endpoint", options.buckets.cosi_endpoint},
      {"--endpoint", options.endpoint},
      {"--admin-endpoint", options.admin_endpoint},
      {"--kubelet-dir", options.registration_socket},
      {"--metrics-address", options.metrics.has_value() ? options.metrics->socket : std::nullopt},
  }};
  for (auto one = sockets.begin(); one != sockets.end(); ++one) {
    for (auto other = sockets.begin(); other != one; ++other) {
      if (one->second.has_value() && one->second == other->second) {
        return Error(Code::kInvalidArgument,
                     fmt::format("{} and {} must be different sockets", one->first, other->first));
      }
    }
    if (options.registration_socket.has_value() && one->second.has_value() &&
        one->second != options.registration_socket &&
        one->second->str().starts_with(options.registration_socket->Parent().str() + "/")) {
      return Error(Code::kInvalidArgument,
                   fmt::format("{} must not lie in the kubelet's folder plugins_registry", one->first));
    }
  }
  return Ok();
}

// Fills in the defaults that are known only at the start. Refuses settings that are missing or conflict.
Status Complete(Options& options, const Environment& environment) {
  if (!options.endpoint) {
    return Error(Code::kInvalidArgument,
                 "--endpoint (CSI_ENDPOINT) is required: unix:///<directory>/<name>.sock");
  }
  if (!options.admin_off && !options.admin_endpoint.has_value()) {
    QUARRY_ASSIGN(options.admin_endpoint,
                  ParseEndpoint("unix://" + options.state_dir + "/admin.sock").Context("--admin-endpoint"));
  }
  QUARRY_TRY(PlaceRegistration(options));
  QUARRY_TRY(CheckSockets(options));
  if (options.pools.empty()) {
    return Error(
        Code::kInvalidArgument,
        "no pool is configured: name a volume group with --pool NAME=VG, QUARRY_POOL or [[pool]] in the "
        "configuration file");
  }
  // The host name of a pod changes with each roll-out. The node's topology label and every volume's affinity
  // would keep the old one.
  const auto in_pod = environment.find("KUBERNETES_SERVICE_HOST");
  if (options.node.empty() && in_pod != environment.end() && !in_pod->second.empty()) {
    return Error(Code::kInvalidArgument,
                 "--node-id is not set, and the host name cannot serve as the node id, because the host name "
                 "of a Kubernetes pod changes: set QUARRY_NODE_ID from the field spec.nodeName");
  }
  if (options.node.empty()) {
    options.node = HostName();
    QUARRY_TRY(csi::CheckNodeId(options.node)
                   .Context("--node-id is not set, and the host name is not a valid node id"));
  }
  if (options.mode == csi::Mode::kController &&
      (options.buckets.on() || options.buckets.cosi_endpoint.has_value())) {
    return Error(Code::kInvalidArgument,
                 "--s3-listen and --cosi-endpoint: buckets are mounted, which --mode controller does not do");
  }
  return CompleteBuckets(options.buckets, options.node);
}

Result<Layer> FindConfig(const CommandLine& command_line, const Environment& environment,
                         const std::string& default_config) {
  const auto env = environment.find("QUARRY_CONFIG");
  if (command_line.config) {
    return ReadConfigFile(*command_line.config).Context("--config");
  }
  if (env != environment.end() && !env->second.empty()) {
    return ReadConfigFile(env->second).Context("QUARRY_CONFIG");
  }
  Result<Layer> read = ReadConfigFile(default_config);
  if (!read.has_value() && read.error().code() == Code::kNotFound) {
    return Layer{};
  }
  return read;
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a table, one row for each setting.
const std::vector<Setting>& Settings() {
  static const std::vector<Setting> kSettings = {
      {"endpoint", "CSI_ENDPOINT", "socket to serve on, unix:///<directory>/<name>.sock (required)",
       &Set<&Options::endpoint, &ParseEndpoint>},
      {"admin-endpoint", "QUARRY_ADMIN_ENDPOINT",
       "socket for quarryctl, unix:///<directory>/<name>.sock, or off [admin.sock in the state directory]",
       &ApplyAdminEndpoint},
      {"driver-name", "QUARRY_DRIVER_NAME", "plugin name and prefix of the topology key [quarry.csi.local]",
       &ApplyDriverName},
      {"node-id", "QUARRY_NODE_ID", "this node's id and topology value [the host name]", &ApplyNodeId},
      {"kubelet-dir", "QUARRY_KUBELET_DIR",
       "the kubelet's root folder, such as /var/lib/kubelet: register with the kubelet there, or off [off]",
       &ApplyKubeletDir},
      {"mode", "QUARRY_MODE", "services to offer: all, controller, node [all]",
       &Set<&Options::mode, &ParseMode>},
      {"default-size", "QUARRY_DEFAULT_SIZE", "size of a volume whose request names none [1GiB]",
       &ApplyDefaultSize},
      {"extent-size", "QUARRY_EXTENT_SIZE", "extent size of volume groups that quarryd creates [4MiB]",
       &ApplyExtentSize},
      {"several-targets", "QUARRY_SEVERAL_TARGETS",
       "whether a volume may be published at several paths of this node: allow, refuse [allow]",
       &Set<&Options::several_targets, &ParseSeveralTargets>},
      {"fsck", "QUARRY_FSCK",
       "file system check before a mount: off, preen (repairs only what is safe to repair) [off]",
       &Set<&Options::fsck, &ParseFsck>},
      {"expand", "QUARRY_EXPAND",
       "which CSI call grows a volume: controller (ControllerExpandVolume) or node (NodeExpandVolume; for "
       "Kubernetes, whose external-resizer may call any node) [controller]",
       &Set<&Options::expand, &ParseExpand>},
      {"ephemeral-max-size", "QUARRY_EPHEMERAL_MAX_SIZE",
       "largest inline volume that a pod may request, 0 for no inline volumes [0]",
       &Set<&Options::ephemeral_max_size, &ParseSize>},
      {"max-volumes", "QUARRY_MAX_VOLUMES",
       "highest number of volumes reported for this node, 0 for no limit [0]",
       &Set<&Options::max_volumes, &ParseUpTo<uint32_t, UINT32_MAX>>},
      {"patient", "QUARRY_PATIENT",
       "make callers wait instead of answering that a volume is busy; for Mesos [false]",
       &Set<&Options::patient, &ParseBool>, true},
      {"alpha", "QUARRY_ALPHA", "announce and serve features that CSI marks as alpha [false]",
       &Set<&Options::alpha, &ParseBool>, true},
      {"state-dir", "QUARRY_STATE_DIR", "directory for state that may be lost at a reboot [/run/quarry]",
       &ApplyStateDir},
      {"lvm", "QUARRY_LVM",
       "how LVM commands are run: zygote (one process stays loaded), spawn (a process for each command) "
       "[zygote]",
       &Set<&Options::lvm, &ParseLvmBy>},
      {"erase-rate", "QUARRY_ERASE_RATE",
       "highest rate of erasing deleted volumes and zeroing new space, in bytes per second and disk, 0 for "
       "no limit [0]",
       &Set<&Options::erase_rate, &ParseSize>},
      {"copy-rate", "QUARRY_COPY_RATE",
       "highest rate of each copy of a volume or snapshot, in bytes per second, 0 for no limit [as "
       "erase-rate]",
       &Set<&Options::copy_rate, &ParseSize>},
      {"copy-keep-minutes", "QUARRY_COPY_KEEP_MINUTES",
       "minutes after a start in which a repeated call goes on with an interrupted copy, which is erased "
       "then, 0 for at once [15]",
       &Set<&Options::copy_keep, &ParseUpTo<minutes, minutes(kYear).count()>>},
      {"zero-free-rate", "QUARRY_ZERO_FREE_RATE",
       "rate of zeroing free space of unknown past while a pool has no other work, in bytes per second, 0 "
       "for never [0]",
       &Set<&Options::zero_free_rate, &ParseZeroFreeRate>},
      {"stuck-limit", "QUARRY_STUCK_LIMIT",
       "how many LVM commands of a pool may be stuck on a silent disk before quarryd starts no more of them "
       "[4]",
       &ApplyStuckLimit},
      {"trim-hours", "QUARRY_TRIM_HOURS", "hours between runs of fstrim on mounted volumes, 0 for never [0]",
       &Set<&Options::trim_interval, &ParseUpTo<hours, hours(kYear).count()>>},
      {"repair", "QUARRY_REPAIR",
       "whether lost RAID legs are rebuilt on other disks automatically: auto, manual [auto]",
       &Set<&Options::repair, &ParseRepair>},
      {"repair-delay", "QUARRY_REPAIR_DELAY",
       "seconds that a disk must be missing before its RAID legs are rebuilt on other disks [600]",
       &Set<&Options::repair_delay, &ParseUpTo<seconds, seconds(kMonth).count()>>},
      {"rebuild-rate", "QUARRY_REBUILD_RATE",
       "highest rate at which a RAID leg is rebuilt or scrubbed, in bytes per second, 0 for the kernel's "
       "limits [LVM's setting]",
       &ApplyRebuildRate},
      {"scrub-days", "QUARRY_SCRUB_DAYS",
       "days between scrubs of a RAID volume, 0 for scrubs on request only [28]",
       &Set<&Options::scrub_interval, &ParseUpTo<days, kYear.count()>>},
      {"scrub-hours", "QUARRY_SCRUB_HOURS",
       "hours of the day, local time, in which a scheduled scrub may start, such as 1-5 or 22-6 [0-24]",
       &ApplyScrubHours},
      {"health-interval", "QUARRY_HEALTH_INTERVAL",
       "interval between disk health polls, in seconds, 0 for never [60]",
       &Set<&Options::health_interval, &ParseUpTo<seconds, seconds(days(1)).count()>>},
      {"metrics-address", "QUARRY_METRICS_ADDRESS",
       "where to serve metrics: 127.0.0.1:9808 or unix:///<directory>/<name>.sock [nowhere]",
       &Set<&Options::metrics, &ParseMetricsAddress>},
      {"statsd-address", "QUARRY_STATSD_ADDRESS",
       "where to send the metrics every 10 s as StatsD: udp://HOST:PORT or "
       "unixgram:///<directory>/<name>.sock "
       "[off]",
       &Set<&Options::statsd, &ParseStatsdAddress>},
      {"on-change", "QUARRY_ON_CHANGE",
       "program to run when the condition of a pool, store, disk or volume changes, by its absolute path, or "
       "off "
       "[off]",
       &ApplyOnChange},
      {"s3-listen", "QUARRY_S3_LISTEN",
       "where the S3 gateway listens, ADDRESS:PORT such as 127.0.0.1:7070: serve buckets; or off [off; "
       "127.0.0.1:7070 with --cosi-endpoint]",
       &SetBucket<&BucketOptions::listen, &ParseS3Listen>},
      {"s3-url", "QUARRY_S3_URL", "address of the S3 gateway that clients are told [from --s3-listen]",
       &SetBucket<&BucketOptions::url, &ParseS3Url>},
      {"s3-region", "QUARRY_S3_REGION", "region of the S3 gateway [us-east-1]",
       &SetBucket<&BucketOptions::region, &ParseS3Word>},
      {"s3-cert", "QUARRY_S3_CERT", "certificate of the S3 gateway, a file in PEM [none: no TLS]",
       &SetBucket<&BucketOptions::certificate, &AbsolutePath::Parse>},
      {"s3-key", "QUARRY_S3_KEY", "key of --s3-cert, a file in PEM that --s3-user can read [none]",
       &SetBucket<&BucketOptions::key, &AbsolutePath::Parse>},
      {"s3-user", "QUARRY_S3_USER", "user that the S3 gateway runs as [quarry-s3]",
       &SetBucket<&BucketOptions::user, &ParseS3Word>},
      {"cosi-endpoint", "COSI_ENDPOINT", "socket for COSI, unix:///<directory>/<name>.sock [none]",
       &SetBucket<&BucketOptions::cosi_endpoint, &ParseEndpoint>},
      {"cosi-driver-name", "QUARRY_COSI_DRIVER_NAME",
       "name of this node's COSI driver [n-<node id>.s3.quarry.local]",
       &SetBucket<&BucketOptions::cosi_driver_name, &ParseCosiDriverName>},
      {"log-level", "QUARRY_LOG_LEVEL", "lowest level that is logged: debug, info, warning, error [info]",
       &Set<&Options::log_level, &ParseLogLevel>},
      {"log-format", "QUARRY_LOG_FORMAT", "log format: json for machines, text for people [json]",
       &Set<&Options::log_format, &ParseLogFormat>},
  };
  return kSettings;
}

// A variable that begins with QUARRY_ but names no setting is not an error: Kubernetes puts QUARRY_PORT and
// similar variables into every container of a namespace that has a service called quarry. A variable set to
// the empty string counts as not set.
Result<Layer> ReadEnvironment(const Environment& environment) {
  Layer layer;
  for (const Setting& setting : Settings()) {
    const auto found = environment.find(setting.env);
    if (found != environment.end() && !found->second.empty()) {
      layer.settings[setting.name] = {setting.env, found->second};
    }
  }
  const auto pools = environment.find("QUARRY_POOL");
  if (pools == environment.end() || pools->second.empty()) {
    return layer;
  }
  layer.pools.emplace();
  for (std::string_view rest = pools->second; !rest.empty();) {
    const std::string_view one = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    QUARRY_ASSIGN(PoolDraft draft, ParsePoolText("QUARRY_POOL", one));
    layer.pools->push_back(std::move(draft));
  }
  return layer;
}

Result<Loaded> Load(const std::vector<std::string>& args, const Environment& environment,
                    const std::string& version, const std::string& default_config) {
  QUARRY_ASSIGN(CommandLine command_line, ReadFlags(args, version));
  Loaded loaded;
  if (!command_line.print.empty()) {
    loaded.print = std::move(command_line.print);
    return loaded;
  }
  QUARRY_ASSIGN(Layer from_environment, ReadEnvironment(environment));
  QUARRY_ASSIGN(Layer from_file, FindConfig(command_line, environment, default_config));
  const Layers layers = {std::move(command_line.layer), std::move(from_environment), std::move(from_file)};
  if (auto problems = ApplyLayers(layers, loaded.options); !problems.empty()) {
    return std::move(problems.front());
  }
  QUARRY_TRY(Complete(loaded.options, environment));
  loaded.given = GivenTexts(layers);
  return loaded;
}

SettingsReport ReportSettings(const std::vector<std::string>& args, const Environment& environment,
                              const std::string& version, const std::string& default_config) {
  SettingsReport report;
  const auto take = [&report](auto result, auto& place) {
    if (result.has_value()) {
      place = std::move(*result);
    } else {
      report.problems.push_back(std::move(result.error()));
    }
  };
  CommandLine command_line;
  Layers layers;
  take(ReadFlags(args, version), command_line);
  take(ReadEnvironment(environment), layers[1]);
  take(FindConfig(command_line, environment, default_config), layers[2]);
  layers[0] = std::move(command_line.layer);
  for (const Setting& setting : Settings()) {
    if (const Given* given = FindGiven(layers, setting.name); given != nullptr) {
      report.given.push_back(fmt::format("{} = {} ({})", setting.name, given->text, given->origin));
    }
  }
  Options options;
  auto problems = ApplyLayers(layers, options);
  std::ranges::move(problems, std::back_inserter(report.problems));
  if (!report.problems.empty()) {
    return report;  // what is incomplete may only be a consequence
  }
  if (Status complete = Complete(options, environment); !complete.has_value()) {
    report.problems.push_back(std::move(complete.error()));
  } else {
    report.options = std::move(options);
  }
  return report;
}

}  // namespace quarry::daemon
