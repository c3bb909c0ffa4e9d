// The promises to Mesos, on real LVM: a provider of each Mesos generation (tests/slrp) over one quarryd.
// Their life goes on after a power cut. Before and After are two runs of this program, as in
// power_cut_test.cc.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/slrp/scenario.h"
#include "tests/vm/fixture.h"

namespace quarry::vm {
namespace {

using std::chrono::seconds;

// An emulated processor, with another guest beside it, is slower than an agent's by this factor.
constexpr double kTimeScale = 20;
constexpr uint64_t kSize = 8 << 20;
constexpr char kBooks[] = "/root/mesos";  // survives the power cut
constexpr char kMounts[] = "/root/mesos/mounts";

// One quarryd and a provider of every generation, each with its own books, names and paths.
class Slrp : public testing::Test {
 protected:
  static int FromEnvironment(const char* name, int otherwise) {
    const char* value = std::getenv(name);
    return value != nullptr ? std::atoi(value) : otherwise;
  }

  // All generations, or those that SLRP_GENERATIONS names ("1.5 1.6").
  static std::vector<slrp::Generation> Generations() {
    std::vector<slrp::Generation> out(std::begin(slrp::kGenerations), std::end(slrp::kGenerations));
    if (const char* named = std::getenv("SLRP_GENERATIONS"); named != nullptr) {
      const std::vector<std::string> words = Words(named);
      std::erase_if(out, [&](const slrp::Generation& generation) {
        return std::find(words.begin(), words.end(), generation.name) == words.end();
      });
      EXPECT_EQ(out.size(), words.size()) << named;
    }
    return out;
  }

  void Start() {
    QuarrydOptions options;
    options.arguments = {"--patient"};
    auto started = QuarrydProcess::Start(options);
    ASSERT_OK(started);
    quarryd_ = std::move(*started);
  }

  static slrp::Scenario ScenarioOf() {
    slrp::Scenario scenario;
    scenario.disks = FromEnvironment("SLRP_DISKS", 8);
    scenario.published = FromEnvironment("SLRP_PUBLISHED", 3);
    scenario.destroyed = FromEnvironment("SLRP_DESTROYED", 3);
    scenario.leave_nothing = false;
    scenario.size = kSize;
    scenario.make_from = {"linear-block-v1", "linear-ext4-v1"};
    return scenario;
  }

  static slrp::ProviderOptions OptionsOf(const slrp::Generation& generation) {
    slrp::ProviderOptions options;
    options.generation = generation;
    options.socket = kSocket;
    options.mount_root = std::string(kMounts) + "/" + std::string(generation.name);
    options.prefix = "mesos-" + std::string(generation.name);
    auto text = slrp::ReadFile("/opt/quarry/extra/profiles.json");
    EXPECT_OK(text);
    auto profiles = slrp::ParseProfiles(text.has_value() ? *text : "");
    EXPECT_OK(profiles);
    options.profiles = profiles.has_value() ? *profiles : std::vector<slrp::Profile>();
    options.time_scale = kTimeScale;
    return options;
  }

  static std::string BookOf(const slrp::Generation& generation) {
    return std::string(kBooks) + "/" + std::string(generation.name);
  }

  static void Expect(const slrp::Generation& generation, const slrp::Report& report,
                     std::chrono::steady_clock::time_point begin) {
    const auto took = std::chrono::duration_cast<seconds>(std::chrono::steady_clock::now() - begin);
    std::cout << "Mesos " << generation.name << " in " << took.count() << " s: " << report.Text()
              << std::flush;
    EXPECT_TRUE(report.violations().empty()) << generation.name;
  }

  std::unique_ptr<QuarrydProcess> quarryd_;
};

TEST_F(Slrp, Before) {
  VolumeGroup group(kGroup, DiskNodes());
  group.Keep();
  ASSERT_OK(group.Make());
  std::filesystem::create_directories(kMounts);
  for (const slrp::Generation& generation : Generations()) {
    const auto begin = std::chrono::steady_clock::now();
    if (quarryd_ == nullptr) {
      Start();
    }
    // A volume that was not made by this provider, and that an operator adopts.
    const auto stranger = slrp::Connect(kSocket, slrp::Api::kV1, seconds(120))
                              ->Create("old-" + std::string(generation.name), kSize, {.block = true}, {});
    ASSERT_TRUE(stranger.ok()) << slrp::Words(stranger.status);
    slrp::Scenario scenario = ScenarioOf();
    scenario.adopt = {{stranger.value.id, "linear-block-v1"}};
    scenario.kill = [this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(700));  // chooses the moment of the kill
      quarryd_->Kill();
      Start();
    };
    slrp::Books books;
    slrp::Report report;
    {
      slrp::Provider provider(OptionsOf(generation), books, report);
      slrp::BeforeReboot(provider, books, scenario);
    }
    Expect(generation, report, begin);
    EXPECT_GE(report.counts()["created"], scenario.disks);
    EXPECT_EQ(report.counts()["adopted"], 1);
    ASSERT_OK(books.Save(BookOf(generation)));
  }
  ASSERT_TRUE(Sh(std::string("sync -f ") + kBooks).ok());
  (void)quarryd_->Release();  // the power cut ends it
}

TEST_F(Slrp, After) {
  Start();
  for (const slrp::Generation& generation : Generations()) {
    const auto begin = std::chrono::steady_clock::now();
    auto books = slrp::Books::Load(BookOf(generation));
    ASSERT_OK(books);
    slrp::Report report;
    slrp::Provider provider(OptionsOf(generation), *books, report);
    slrp::AfterReboot(provider, *books, ScenarioOf());
    Expect(generation, report, begin);
    // The scenario destroys one of the published volumes right after the boot.
    EXPECT_EQ(report.counts()["recovered"], ScenarioOf().published - 1);
  }
  EXPECT_EQ(quarryd_->Stop(), 0);
}

}  // namespace
}  // namespace quarry::vm
