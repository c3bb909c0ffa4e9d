#include "daemon/settings/options.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/daemon/temporary_directory.h"

namespace quarry::daemon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kEndpoint = "unix:///run/csi.sock";

class Loading : public ::testing::Test {
 protected:
  // Writes the default configuration file.
  void File(const std::string& text) { std::ofstream(path_) << text; }

  Result<Loaded> Load(const std::vector<std::string>& args, const Environment& environment = {}) {
    return daemon::Load(args, environment, "1.2.3", path_);
  }

  // Loads settings that are complete except for those under test.
  Result<Loaded> LoadWith(std::vector<std::string> args, Environment environment = {}) {
    environment.try_emplace("CSI_ENDPOINT", kEndpoint);
    environment.try_emplace("QUARRY_POOL", "p=vg0");
    environment.try_emplace("QUARRY_NODE_ID", "n1");
    return Load(args, environment);
  }

  void ExpectRefused(const Result<Loaded>& loaded, const std::string& message) {
    ASSERT_FALSE(loaded.has_value()) << message;
    EXPECT_EQ(loaded.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(loaded.error().message(), HasSubstr(message));
  }

  TemporaryDirectory directory_;
  std::string path_ = directory_.path() + "/quarry.toml";
};

TEST_F(Loading, HasTheDocumentedDefaults) {
  const auto loaded = Load({"--endpoint", kEndpoint, "--pool", "p=vg0"});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  const Options& options = loaded->options;
  EXPECT_EQ(options.endpoint, *AbsolutePath::Parse("/run/csi.sock"));
  EXPECT_EQ(options.admin_endpoint, *AbsolutePath::Parse("/run/quarry/admin.sock"));
  EXPECT_EQ(options.kubelet_dir, std::nullopt);
  EXPECT_EQ(options.registration_socket, std::nullopt);
  EXPECT_EQ(options.driver_name, "quarry.csi.local");
  EXPECT_FALSE(options.node.empty());
  EXPECT_EQ(options.mode, csi::Mode::kAll);
  EXPECT_EQ(options.default_size, kGiB);
  EXPECT_EQ(options.extent_size, Bytes{4 * kMiB.value});
  EXPECT_TRUE(options.several_targets);
  EXPECT_EQ(options.fsck, engine::Fsck::kOff);
  EXPECT_EQ(options.expand, engine::ExpandBy::kController);
  EXPECT_EQ(options.ephemeral_max_size, Bytes{0});
  EXPECT_EQ(options.max_volumes, 0U);
  EXPECT_FALSE(options.alpha);
  EXPECT_FALSE(options.patient);
  EXPECT_EQ(options.state_dir, "/run/quarry");
  EXPECT_EQ(options.lvm, LvmBy::kZygote);
  EXPECT_EQ(options.stuck_limit, 4U);
  EXPECT_EQ(options.erase_rate, Bytes{});
  EXPECT_FALSE(options.copy_rate.has_value());
  EXPECT_EQ(options.copy_keep, std::chrono::minutes(15));
  EXPECT_EQ(options.zero_free_rate, Bytes{});
  EXPECT_EQ(options.trim_interval.count(), 0);
  EXPECT_TRUE(options.repair);
  EXPECT_EQ(options.repair_delay, std::chrono::minutes(10));
  EXPECT_EQ(options.health_interval, std::chrono::minutes(1));
  EXPECT_FALSE(options.metrics.has_value());
  EXPECT_FALSE(options.statsd.has_value());
  EXPECT_FALSE(options.on_change.has_value());
  EXPECT_EQ(options.log_level, LogLevel::kInfo);
  EXPECT_EQ(options.log_format, LogFormat::kJson);
}

TEST_F(Loading, TakesEverySettingFromEachSource) {
  const std::map<std::string, std::string> values = {{"endpoint", "unix:///e/x.sock"},
                                                     {"admin-endpoint", "unix:///e/admin.sock"},
                                                     {"kubelet-dir", "/var/lib/kubelet/"},
                                                     {"driver-name", "d.example"},
                                                     {"node-id", "n7"},
                                                     {"mode", "node"},
                                                     {"default-size", "2GiB"},
                                                     {"extent-size", "8MiB"},
                                                     {"several-targets", "refuse"},
                                                     {"fsck", "preen"},
                                                     {"expand", "node"},
                                                     {"ephemeral-max-size", "3GiB"},
                                                     {"max-volumes", "9"},
                                                     {"alpha", "true"},
                                                     {"patient", "true"},
                                                     {"state-dir", "/run/other"},
                                                     {"lvm", "spawn"},
                                                     {"stuck-limit", "2"},
                                                     {"erase-rate", "200MiB"},
                                                     {"copy-rate", "100MiB"},
                                                     {"copy-keep-minutes", "3"},
                                                     {"zero-free-rate", "50MiB"},
                                                     {"trim-hours", "168"},
                                                     {"repair", "manual"},
                                                     {"repair-delay", "90"},
                                                     {"rebuild-rate", "50MiB"},
                                                     {"scrub-days", "7"},
                                                     {"scrub-hours", "22-5"},
                                                     {"health-interval", "7"},
                                                     {"metrics-address", "127.0.0.1:9808"},
                                                     {"statsd-address", "udp://127.0.0.1:8125"},
                                                     {"on-change", "/etc/quarry/hooks/mail"},
                                                     {"s3-listen", "127.0.0.1:7070"},
                                                     {"s3-url", "https://edge1:7070"},
                                                     {"s3-region", "eu-1"},
                                                     {"s3-cert", "/etc/quarry/cert.pem"},
                                                     {"s3-key", "/etc/quarry/key.pem"},
                                                     {"s3-user", "s3"},
                                                     {"cosi-endpoint", "unix:///run/quarry/cosi.sock"},
                                                     {"cosi-driver-name", "edge1.s3"},
                                                     {"log-level", "debug"},
                                                     {"log-format", "text"}};
  std::vector<std::string> flags = {"--pool", "p=vg0,reserve=1G"};
  Environment environment = {{"QUARRY_POOL", "p=vg0,reserve=1G"}};
  std::string file;
  for (const Setting& setting : Settings()) {
    ASSERT_TRUE(values.contains(setting.name)) << setting.name << " needs a row here";
    flags.push_back("--" + setting.name + "=" + values.at(setting.name));
    environment[setting.env] = values.at(setting.name);
    file += setting.name + " = \"" + values.at(setting.name) + "\"\n";
  }
  file += "[[pool]]\nname = \"p\"\nvg = \"vg0\"\nreserve = \"1G\"\n";

  for (const int source : {0, 1, 2}) {
    File(source == 2 ? file : "");
    const auto loaded =
        Load(source == 0 ? flags : std::vector<std::string>(), source == 1 ? environment : Environment());
    ASSERT_TRUE(loaded.has_value()) << source << ": " << loaded.error().message();
    const Options& options = loaded->options;
    EXPECT_EQ(options.endpoint, *AbsolutePath::Parse("/e/x.sock")) << source;
    EXPECT_EQ(options.admin_endpoint, *AbsolutePath::Parse("/e/admin.sock")) << source;
    EXPECT_EQ(options.registration_socket,
              *AbsolutePath::Parse("/var/lib/kubelet/plugins_registry/d.example-reg.sock"))
        << source;
    EXPECT_EQ(options.driver_name, "d.example") << source;
    EXPECT_EQ(options.node, "n7") << source;
    EXPECT_EQ(options.mode, csi::Mode::kNode) << source;
    EXPECT_EQ(options.default_size, Bytes{2 * kGiB.value}) << source;
    EXPECT_EQ(options.extent_size, Bytes{8 * kMiB.value}) << source;
    EXPECT_FALSE(options.several_targets) << source;
    EXPECT_EQ(options.fsck, engine::Fsck::kPreen) << source;
    EXPECT_EQ(options.expand, engine::ExpandBy::kNode) << source;
    EXPECT_EQ(options.ephemeral_max_size, Bytes{3 * kGiB.value}) << source;
    EXPECT_EQ(options.max_volumes, 9U) << source;
    EXPECT_TRUE(options.alpha) << source;
    EXPECT_TRUE(options.patient) << source;
    EXPECT_EQ(options.state_dir, "/run/other") << source;
    EXPECT_EQ(options.lvm, LvmBy::kSpawn) << source;
    EXPECT_EQ(options.erase_rate, Bytes{200 * kMiB.value}) << source;
    EXPECT_EQ(options.copy_rate, Bytes{100 * kMiB.value}) << source;
    EXPECT_EQ(options.copy_keep, std::chrono::minutes(3)) << source;
    EXPECT_EQ(options.zero_free_rate, Bytes{50 * kMiB.value}) << source;
    EXPECT_EQ(options.trim_interval, std::chrono::hours(168)) << source;
    EXPECT_FALSE(options.repair) << source;
    EXPECT_EQ(options.repair_delay, std::chrono::seconds(90)) << source;
    EXPECT_EQ(options.health_interval, std::chrono::seconds(7)) << source;
    EXPECT_EQ(options.on_change, *AbsolutePath::Parse("/etc/quarry/hooks/mail")) << source;
    EXPECT_EQ(options.statsd->port, "8125") << source;
    EXPECT_EQ(options.log_level, LogLevel::kDebug) << source;
    EXPECT_EQ(options.log_format, LogFormat::kText) << source;
    ASSERT_EQ(options.pools.size(), 1U) << source;
    EXPECT_EQ(options.pools[0].reserve, kGiB) << source;
  }
}

TEST_F(Loading, PrefersFlagToEnvironmentToFileToDefault) {
  File(
      "log-level = \"error\"\nlog-format = \"text\"\nmode = \"node\"\n[[pool]]\nname = \"f\"\nvg = \"vf\"\n");
  const auto loaded = Load(
      {"--log-level", "debug", "--endpoint", kEndpoint},
      {{"QUARRY_LOG_LEVEL", "warning"}, {"QUARRY_LOG_FORMAT", "json"}, {"CSI_ENDPOINT", "unix:///o.sock"}});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_EQ(loaded->options.log_level, LogLevel::kDebug);
  EXPECT_EQ(loaded->options.log_format, LogFormat::kJson);
  EXPECT_EQ(loaded->options.mode, csi::Mode::kNode);
  EXPECT_EQ(loaded->options.endpoint, *AbsolutePath::Parse("/run/csi.sock"));
}

TEST_F(Loading, TakesPoolsWholeFromOneSource) {
  File("[[pool]]\nname = \"f\"\nvg = \"vf\"\nforeign = \"list\"\n");
  const auto from_flags =
      LoadWith({"--pool", "a=va", "--pool", "b=vb,reserve=1M"}, {{"QUARRY_POOL", "e=ve"}});
  ASSERT_TRUE(from_flags.has_value()) << from_flags.error().message();
  ASSERT_EQ(from_flags->options.pools.size(), 2U);
  EXPECT_EQ(from_flags->options.pools[0].name, "a");
  EXPECT_EQ(from_flags->options.pools[1].group, "vb");
  const auto from_environment = LoadWith({}, {{"QUARRY_POOL", "e=ve;g=vg"}});
  ASSERT_EQ(from_environment->options.pools.size(), 2U);
  EXPECT_EQ(from_environment->options.pools[1].name, "g");
  const auto from_file = Load({"--endpoint", kEndpoint});
  ASSERT_TRUE(from_file.has_value()) << from_file.error().message();
  EXPECT_EQ(from_file->options.pools[0].name, "f");
  EXPECT_TRUE(from_file->options.pools[0].list_foreign);

  File(
      "[[pool]]\nname = \"f\"\nvg = \"vf\"\nexclude = [\"/dev/b\"]\n"
      "devices = [\"/dev/a\", { transport = \"nvme\", min-size = 4096, rotational = false }]\n");
  const auto rules = Load({"--endpoint", kEndpoint});
  ASSERT_TRUE(rules.has_value()) << rules.error().message();
  EXPECT_EQ(rules->options.pools[0].devices,
            (std::vector<engine::DeviceRule>{
                {.path = "/dev/a"}, {.transport = "nvme", .min_size = Bytes{4096}, .rotational = false}}));
  EXPECT_EQ(rules->options.pools[0].exclude, std::vector<engine::DeviceRule>{{.path = "/dev/b"}});
}

TEST_F(Loading, NamesTheUnknownOrBadSetting) {
  ExpectRefused(LoadWith({"--frobnicate", "1"}), "--frobnicate");
  ExpectRefused(LoadWith({"stray"}), "stray");
  ExpectRefused(LoadWith({"--log-level", "loud"}),
                "--log-level: must be one of debug, info, warning, error, is 'loud'");
  ExpectRefused(LoadWith({"--log-level"}), "--log-level");
  ExpectRefused(LoadWith({"--on-change=mail"}), "--on-change: ");
  ExpectRefused(LoadWith({"--s3-listen=localhost:7070"}), "--s3-listen: ");
  ExpectRefused(LoadWith({"--s3-listen=127.0.0.1:1", "--s3-cert=/c"}),
                "--s3-cert and --s3-key need each other");
  ExpectRefused(LoadWith({"--s3-url=edge1:7070"}), "--s3-url: must be http://HOST:PORT");
  ExpectRefused(LoadWith({"--cosi-driver-name=Edge"}), "--cosi-driver-name: 'Edge' is no name");
  ExpectRefused(LoadWith({"--cosi-endpoint=unix:///run/c.sock", "--node-id=10.0.0.1"}),
                "--cosi-driver-name is not set");
  ExpectRefused(LoadWith({"--s3-listen=127.0.0.1:1", "--mode=controller"}), "--mode controller");
  const auto cosi = LoadWith({"--cosi-endpoint=unix:///run/c.sock", "--node-id=edge1"});
  ASSERT_TRUE(cosi.has_value()) << cosi.error().message();
  EXPECT_EQ(cosi->options.buckets.listen, "127.0.0.1:7070");
  EXPECT_EQ(cosi->options.buckets.url, "http://127.0.0.1:7070");
  EXPECT_EQ(cosi->options.buckets.cosi_driver_name, "n-edge1.s3.quarry.local");
  EXPECT_EQ(LoadWith({"--s3-listen=0.0.0.0:1", "--node-id=edge1"})->options.buckets.url, "http://edge1:1");
  EXPECT_FALSE(LoadWith({})->options.buckets.on());
  ExpectRefused(LoadWith({"--statsd-address=127.0.0.1:8125"}), "--statsd-address: must be udp://HOST:PORT");
  EXPECT_FALSE(LoadWith({"--on-change=off"})->options.on_change.has_value());
  ExpectRefused(LoadWith({"--lvm=shell"}), "--lvm: must be one of zygote, spawn, is 'shell'");
  ExpectRefused(LoadWith({"--mode=x"}), "--mode: must be one of all, controller, node");
  ExpectRefused(LoadWith({"--endpoint=/x.sock"}), "--endpoint: must be unix:///");
  ExpectRefused(LoadWith({"--driver-name=Bad_Name"}), "--driver-name: must be a domain name");
  ExpectRefused(LoadWith({"--node-id=-x"}), "--node-id: must be 1 to 63");
  ExpectRefused(LoadWith({"--extent-size=3MiB"}), "--extent-size: must be a power of two");
  ExpectRefused(LoadWith({"--default-size=0"}), "--default-size: must not be 0");
  ExpectRefused(LoadWith({"--fsck=repair"}), "--fsck: must be one of off, preen, is 'repair'");
  ExpectRefused(LoadWith({"--several-targets=yes"}), "--several-targets: must be one of allow, refuse");
  ExpectRefused(LoadWith({"--ephemeral-max-size=10GB"}), "--ephemeral-max-size: must be a size like");
  ExpectRefused(LoadWith({"--max-volumes=4294967296"}), "--max-volumes: must be at most");
  ExpectRefused(LoadWith({"--max-volumes=-1"}), "--max-volumes: must be a whole number");
  ExpectRefused(LoadWith({"--erase-rate=fast"}), "--erase-rate: must be a size");
  ExpectRefused(LoadWith({"--copy-rate=fast"}), "--copy-rate: must be a size");
  ExpectRefused(LoadWith({"--copy-keep-minutes=-1"}), "--copy-keep-minutes: must be a whole number");
  ExpectRefused(LoadWith({"--zero-free-rate=50"}), "--zero-free-rate: must be 0, or at least 1MiB");
  ExpectRefused(LoadWith({"--trim-hours=9000"}), "--trim-hours: must be at most");
  ExpectRefused(LoadWith({"--repair=always"}), "--repair: must be one of auto, manual, is 'always'");
  ExpectRefused(LoadWith({"--repair-delay=-1"}), "--repair-delay: must be a whole number");
  ExpectRefused(LoadWith({"--repair-delay=9999999"}), "--repair-delay: must be at most");
  ExpectRefused(LoadWith({"--rebuild-rate=1000"}), "--rebuild-rate: must be whole KiB");
  ExpectRefused(LoadWith({"--scrub-days=400"}), "--scrub-days: must be at most 366");
  for (const char* hours : {"3", "5-5", "24-3", "1-25", "-5", "1-", "a-b"}) {
    ExpectRefused(LoadWith({std::string("--scrub-hours=") + hours}),
                  "--scrub-hours: must be two hours of the day such as 1-5");
  }
  ExpectRefused(LoadWith({"--health-interval=often"}), "--health-interval: must be a whole number");
  ExpectRefused(LoadWith({"--health-interval=90000"}), "--health-interval: must be at most");
  ExpectRefused(LoadWith({"--state-dir=run"}), "--state-dir: must be an absolute path");
  ExpectRefused(LoadWith({"--alpha=maybe"}), "alpha");
  ExpectRefused(LoadWith({"--pool=p=vg0,colour=red"}), "--pool: unknown key 'colour'");
  ExpectRefused(LoadWith({"--pool=p=vg0", "--pool=q=vg0"}), "same volume group");
  ExpectRefused(LoadWith({}, {{"QUARRY_MODE", "both"}}), "QUARRY_MODE: must be one of");
  ExpectRefused(LoadWith({}, {{"QUARRY_POOL", "p"}}), "QUARRY_POOL: must be NAME=VG");
}

TEST_F(Loading, NamesFileLineAndKey) {
  const std::pair<const char*, const char*> bad[] = {
      {"log-level = \"info\"\nlog_level = \"info\"\n", ": line 2: unknown key 'log_level'"},
      {"[pools]\n", ": line 1: unknown key 'pools'"},
      {"mode = \"both\"\n", ": mode: must be one of all, controller, node, is 'both'"},
      {"mode = 1.5\n", ": line 1: mode: must be a string, a whole number or a boolean"},
      {"mode = [\"all\"]\n", ": line 1: mode: must be a string"},
      {"mode = \"all\nalpha = true\n", ": line 1: "},
      {"pool = \"p=vg0\"\n", ": line 1: pool: must be a list of tables, each under its own [[pool]]"},
      {"[pool]\nname = \"p\"\n", "pool: must be a list of tables, each under its own [[pool]]"},
      {"[[pool]]\nname = \"p\"\nvg = \"v\"\nsize = 7\n",
       ": [[pool]] 1: unknown key 'size'; known: reserve, device, exclude, foreign, share.TYPE, store.NAME, "
       "ephemeral, ephemeral-total, ephemeral-max-count, ephemeral-attributes"},
      {"[[pool]]\nname = \"p\"\nvg = \"v\"\ndevices = \"/dev/a\"\n",
       ": line 4: devices: must be a list of paths and rules"},
      {"[[pool]]\nname = \"p\"\nvg = \"v\"\ndevices = [\"/dev/a\", { colour = \"red\" }]\n",
       ": [[pool]] 1: devices[2]: colour: unknown key; known: path, model"},
      {"[[pool]]\nname = \"p\"\nvg = \"v\"\nexclude = [{ min-size = [] }]\n",
       ": line 4: exclude[1]: min-size: must be a string, a whole number or a boolean"},
      {"[[pool]]\nname = \"p\"\n", ": [[pool]] 1: vg: must be the name of a volume group, is ''"},
  };
  for (const auto& [text, message] : bad) {
    File(text);
    const auto loaded = Load({"--endpoint", kEndpoint});
    ExpectRefused(loaded, message);
    EXPECT_THAT(loaded.error().message(), AllOf(StartsWith(path_), Not(HasSubstr("\n"))));
  }
}

TEST_F(Loading, TakesNumbersAndBooleansInTheFileUnquoted) {
  File(
      "alpha = true\nmax-volumes = 12\ndefault-size = 1048576\n[[pool]]\nname = \"p\"\nvg = \"v\"\nreserve = "
      "4096\n");
  const auto loaded = Load({"--endpoint", kEndpoint});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_TRUE(loaded->options.alpha);
  EXPECT_EQ(loaded->options.max_volumes, 12U);
  EXPECT_EQ(loaded->options.default_size, kMiB);
  EXPECT_EQ(loaded->options.pools[0].reserve, Bytes{4096});
}

TEST_F(Loading, NeedsAnEndpointAndAPoolAndSaysHowToSetThem) {
  ExpectRefused(Load({"--pool", "p=vg0"}), "--endpoint (CSI_ENDPOINT) is required");
  ExpectRefused(Load({"--endpoint", kEndpoint}),
                "no pool is configured: name a volume group with --pool NAME=VG");
}

TEST_F(Loading, NeedsANodeIdInAPodBecauseItsNameChanges) {
  const std::vector<std::string> args = {"--endpoint", kEndpoint, "--pool", "p=vg0"};
  ExpectRefused(Load(args, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}),
                "set QUARRY_NODE_ID from the field spec.nodeName");
  const auto told = Load(args, {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"QUARRY_NODE_ID", "n1"}});
  ASSERT_TRUE(told.has_value()) << told.error().message();
  EXPECT_EQ(told->options.node, "n1");
  EXPECT_TRUE(Load(args, {{"KUBERNETES_SERVICE_HOST", ""}}).has_value());
}

TEST_F(Loading, RegistersWithAKubeletOnlyWhereItCanBeServed) {
  EXPECT_EQ(LoadWith({"--kubelet-dir", "off"}, {{"QUARRY_KUBELET_DIR", "/k"}})->options.registration_socket,
            std::nullopt);
  EXPECT_TRUE(LoadWith({"--kubelet-dir=/k", "--mode=node"})->options.registration_socket.has_value());
  ExpectRefused(LoadWith({"--kubelet-dir=/k", "--mode=controller"}),
                "--kubelet-dir: the kubelet needs the node service");
  ExpectRefused(LoadWith({"--kubelet-dir=k"}), "--kubelet-dir: must be an absolute path");
  ExpectRefused(LoadWith({"--kubelet-dir=/" + std::string(90, 'k')}),
                "--kubelet-dir: the path of a unix socket must be at most 107 bytes");
  ExpectRefused(
      LoadWith({"--kubelet-dir=/k", "--endpoint=unix:///k/plugins_registry/quarry.csi.local-reg.sock"}),
      "--kubelet-dir and --endpoint must be different sockets");
  ExpectRefused(LoadWith({"--kubelet-dir=/k", "--endpoint=unix:///k/plugins_registry/q/csi.sock"}),
                "--endpoint must not lie in the kubelet's folder plugins_registry");
}

TEST_F(Loading, PutsTheAdminSocketIntoTheStateDirectoryUnlessItIsOff) {
  EXPECT_EQ(LoadWith({"--state-dir", "/run/b"})->options.admin_endpoint,
            *AbsolutePath::Parse("/run/b/admin.sock"));
  EXPECT_EQ(LoadWith({"--admin-endpoint", "off"})->options.admin_endpoint, std::nullopt);
  ExpectRefused(LoadWith({"--admin-endpoint", kEndpoint}), "must be different sockets");
  ExpectRefused(LoadWith({"--metrics-address", kEndpoint}),
                "--metrics-address and --endpoint must be different");
  ExpectRefused(
      LoadWith({"--admin-endpoint", "unix:///run/b.sock", "--metrics-address", "unix:///run/b.sock"}),
      "--metrics-address and --admin-endpoint must be different");
  ExpectRefused(LoadWith({"--admin-endpoint", "on"}), "--admin-endpoint: must be unix:///");
}

TEST_F(Loading, MissesTheDefaultFileSilentlyAndANamedFileWithAnError) {
  EXPECT_TRUE(LoadWith({}).has_value());
  const auto named = LoadWith({"--config", directory_.path() + "/none.toml"});
  ASSERT_FALSE(named.has_value());
  EXPECT_THAT(named.error().message(), AllOf(StartsWith("--config: "), HasSubstr("none.toml")));
  EXPECT_FALSE(LoadWith({}, {{"QUARRY_CONFIG", "/nowhere.toml"}}).has_value());
  EXPECT_FALSE(LoadWith({"--config", directory_.path()}).has_value());
}

TEST_F(Loading, ReadsTheNamedFileInsteadOfTheDefaultOne) {
  File("mode = \"node\"\n");
  const std::string other = directory_.path() + "/other.toml";
  std::ofstream(other) << "mode = \"controller\"\n";
  EXPECT_EQ(LoadWith({})->options.mode, csi::Mode::kNode);
  EXPECT_EQ(LoadWith({"--config", other})->options.mode, csi::Mode::kController);
  EXPECT_EQ(LoadWith({}, {{"QUARRY_CONFIG", other}})->options.mode, csi::Mode::kController);
}

TEST_F(Loading, IgnoresEmptyVariablesAndThoseOfOtherPrograms) {
  const auto loaded =
      LoadWith({}, {{"QUARRY_MODE", ""}, {"QUARRY_PORT", "tcp://10.0.0.1:80"}, {"QUARRY_CONFIG", ""}});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message();
  EXPECT_EQ(loaded->options.mode, csi::Mode::kAll);
}

TEST_F(Loading, TakesTheSwitchWithAndWithoutAValue) {
  EXPECT_TRUE(LoadWith({"--alpha"})->options.alpha);
  EXPECT_TRUE(LoadWith({"--alpha=true"})->options.alpha);
  EXPECT_FALSE(LoadWith({"--alpha=false"}, {{"QUARRY_ALPHA", "true"}})->options.alpha);
}

TEST_F(Loading, PrintsHelpWithEveryFlagAndTheVersion) {
  const auto help = Load({"--help"});
  ASSERT_TRUE(help.has_value());
  for (const Setting& setting : Settings()) {
    EXPECT_THAT(help->print, AllOf(HasSubstr("--" + setting.name), HasSubstr(setting.env)));
  }
  EXPECT_THAT(help->print, AllOf(HasSubstr("--pool"), HasSubstr("QUARRY_POOL"), HasSubstr("--config")));
  EXPECT_EQ(Load({"--version"})->print, "quarryd 1.2.3\n");
}

TEST_F(Loading, AReportHasEveryProblemAndEveryGivenSetting) {
  File("fsck = \"maybe\"\nscrub-days = 7\n");
  const SettingsReport report =
      ReportSettings({"--log-level", "loud", "--pool", "p=vg0,reserve=x", "--pool", "q=vg1"},
                     {{"QUARRY_MODE", "node"}}, "1.2.3", path_);
  ASSERT_EQ(report.problems.size(), 3U);
  EXPECT_THAT(report.problems[0].message(), HasSubstr("fsck: must be one of"));
  EXPECT_THAT(report.problems[1].message(), HasSubstr("--log-level: must be one of"));
  EXPECT_THAT(report.problems[2].message(), HasSubstr("--pool"));
  EXPECT_FALSE(report.options.has_value());
  EXPECT_THAT(
      report.given,
      ::testing::ElementsAre("mode = node (QUARRY_MODE)", "fsck = maybe (" + path_ + ": fsck)",
                             "scrub-days = 7 (" + path_ + ": scrub-days)", "log-level = loud (--log-level)"));
}

TEST_F(Loading, AReportWithoutProblemsHasTheOptionsThatLoadReturns) {
  const std::vector<std::string> args = {"--endpoint", kEndpoint, "--pool", "p=vg0", "--node-id", "n1"};
  const SettingsReport report = ReportSettings(args, {}, "1.2.3", path_);
  ASSERT_TRUE(report.problems.empty());
  EXPECT_EQ(report.options->node, Load(args)->options.node);
  EXPECT_EQ(report.options->pools.size(), 1U);
}

TEST_F(Loading, AReportNamesTheFirstMistakeOfAnUnreadableSourceAndGoesOn) {
  File("no-such-key = 1\n");
  const SettingsReport report =
      ReportSettings({"--no-such-flag"}, {{"QUARRY_FSCK", "maybe"}}, "1.2.3", path_);
  ASSERT_EQ(report.problems.size(), 3U);
  EXPECT_THAT(report.problems[0].message(), HasSubstr("--no-such-flag"));
  EXPECT_THAT(report.problems[1].message(), HasSubstr("unknown key 'no-such-key'"));
  EXPECT_THAT(report.problems[2].message(), HasSubstr("QUARRY_FSCK"));
}

}  // namespace
}  // namespace quarry::daemon
