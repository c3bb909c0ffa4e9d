// Copies of volumes, on real devices: every byte, files of file systems that are mounted beside their source,
// and nothing of an unfinished copy.
#include <chrono>
#include <thread>

#include "tests/vm/copies_fixture.h"

namespace quarry::vm {
namespace {

struct Case {
  std::string from, to;  // types
  std::string content;   // file system, or "block"
};

class CopyOf : public CopiesFixture, public testing::WithParamInterface<Case> {
 protected:
  bool raw() const { return GetParam().content == "block"; }
  v1::VolumeCapability How() const { return raw() ? BlockCapability() : MountCapability(GetParam().content); }

  // Of the file system that is mounted there.
  std::string UuidOf(const std::string& name) {
    const std::string device = Tool({"findmnt", "-no", "SOURCE", TargetPath(name)}).out;
    const std::string node = device.substr(0, device.find('\n'));
    std::string uuid = Tool({"blkid", "-p", "-o", "value", "-s", "UUID", node}).out;
    EXPECT_FALSE(uuid.empty()) << node;
    return uuid;
  }

  std::string Bytes(const std::string& name) { return TargetPath(name) + (raw() ? "" : "/file"); }
};

TEST_P(CopyOf, HasEveryByteAndALifeOfItsOwn) {
  const int64_t size = raw() ? kRaw : kMounted;
  const uint64_t known = raw() ? static_cast<uint64_t>(size) : kFile;
  ASSERT_NO_FATAL_FAILURE(Dirty());
  const v1::Volume source = MustCreate({"source", TypeParameters(GetParam().from), How(), size});
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", How()));
  ASSERT_OK(WritePattern(Bytes("source"), 11, known));

  VolumeSpec spec{"copy", TypeParameters(GetParam().to), How(), size + 16 * kMi};
  spec.source = source.volume_id();
  EXPECT_TRUE(Fails(client().Create(spec), grpc::StatusCode::FAILED_PRECONDITION, "in use"));
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));

  const v1::Volume copy = MustCreate(spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(copy.content_source().volume().volume_id(), source.volume_id());
  EXPECT_GE(copy.capacity_bytes(), spec.size);
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", How()));
  ASSERT_NO_FATAL_FAILURE(Use(copy, "copy", How())) << "beside its source";
  EXPECT_OK(CheckPattern(Bytes("copy"), 11, known));
  if (raw()) {
    EXPECT_OK(CheckZero(Bytes("copy"), static_cast<uint64_t>(copy.capacity_bytes()) - known, known));
  } else {
    EXPECT_GT(std::stoll(Tool({"stat", "-f", "-c", "%b", TargetPath("copy")}).out),
              std::stoll(Tool({"stat", "-f", "-c", "%b", TargetPath("source")}).out))
        << "the file system fills the larger copy";
  }
  if (!raw()) {
    EXPECT_NE(UuidOf("source"), UuidOf("copy"));
  }
  // Neither sees what is written to the other.
  ASSERT_OK(WritePattern(Bytes("copy"), 12, known / 2));
  EXPECT_OK(CheckPattern(Bytes("source"), 11, known));
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));
  ASSERT_OK(client().Delete(source.volume_id()));
  EXPECT_OK(CheckPattern(Bytes("copy"), 12, known / 2));
  ASSERT_NO_FATAL_FAILURE(Release(copy, "copy"));
  ASSERT_OK(client().Delete(copy.volume_id()));
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const char* content : {"ext4", "xfs", "btrfs", "block"}) {
    cases.push_back({"linear", "linear", content});
  }
  for (const char* type : {"striped", "raid1", "raid5"}) {
    cases.push_back({"linear", type, "block"});
    cases.push_back({type, "linear", "ext4"});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Of, CopyOf, testing::ValuesIn(Cases()), [](const auto& instance) {
  return instance.param.from + "_" + instance.param.to + "_" + instance.param.content;
});

class CopiesTest : public CopiesFixture {
 protected:
  bool StartsQuarryd() const override { return false; }
  // A copy takes 16 seconds at this rate.
  void Start() {
    QuarrydOptions options;
    options.arguments = {"--copy-rate=2MiB", "--copy-keep-minutes=0"};
    StartQuarryd(options);
  }
  static v1::Volume Source(CsiClient& client) {
    const auto made = client.Create({"source", TypeParameters("linear"), BlockCapability(), kRaw});
    return made.value.volume();
  }
  static VolumeSpec SpecOf(const v1::Volume& source) {
    VolumeSpec spec{"copy", TypeParameters("linear"), BlockCapability(), kRaw};
    spec.source = source.volume_id();
    return spec;
  }
};

TEST_F(CopiesTest, AnUnfinishedCopyIsNeverSeenAndItsBytesAreErased) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const v1::Volume source = Source(client());
  ASSERT_FALSE(source.volume_id().empty());
  ASSERT_OK(WritePattern(NodeOf(source), 21, kRaw));
  for (const int pause : {1000, 3000}) {
    std::jthread caller([&] {
      CsiClient own(kSocket);
      (void)own.Create(SpecOf(source));  // ends with the kill
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    const auto listed = client().List();
    ASSERT_OK(listed);
    EXPECT_EQ(listed.value.size(), 1U) << "an unfinished copy is listed";
    // Nobody can use the source meanwhile, so it does not change.
    EXPECT_EQ(client().Stage(source, StagingPath("source"), BlockCapability()).code(),
              grpc::StatusCode::ABORTED);
    quarryd().Kill();
    ASSERT_NO_FATAL_FAILURE(Start());
    ASSERT_TRUE(Eventually([&] {
      const auto lvs = group().Lvs();
      return lvs.has_value() && lvs->size() == 1;
    })) << "the unfinished copy is left";
    EXPECT_EQ(client().List().value.size(), 1U);
    EXPECT_OK(CheckPattern(NodeOf(source), 21, kRaw));
  }
  ASSERT_NO_FATAL_FAILURE(ExpectFreeSpaceIsZero()) << "a copied byte is left";

  // A caller that leaves before the end learns how far it is, and the next one gets the volume.
  CsiClient hasty(kSocket, std::chrono::seconds(3));
  const auto late = hasty.Invoke(hasty.controller(), &v1::Controller::Stub::CreateVolume,
                                 CsiClient::CreateRequest(SpecOf(source)));
  EXPECT_TRUE(Fails(late, grpc::StatusCode::UNAVAILABLE, "are copied"));
  const v1::Volume copy = MustCreate(SpecOf(source));
  EXPECT_OK(CheckPattern(NodeOf(copy), 21, kRaw));
  EXPECT_OK(client().Delete(copy.volume_id()));
  EXPECT_OK(client().Delete(source.volume_id()));
  EXPECT_TRUE(ComesBackEmpty());
}

TEST_F(CopiesTest, WhoStopsTheSourceOrTheCopyIsRefused) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const v1::Volume source = Source(client());
  ASSERT_FALSE(source.volume_id().empty());
  ASSERT_OK(WritePattern(NodeOf(source), 22, kRaw));
  {
    std::jthread caller([&] {
      CsiClient own(kSocket);
      EXPECT_OK(own.Create(SpecOf(source)));
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2000));
    const auto lvs = group().Lvs();
    ASSERT_OK(lvs);
    ASSERT_EQ(lvs->size(), 2U);
    // LVM is not to try again until the copy is done.
    const std::string once = "activation/retry_deactivation=0";
    for (const auto& [name, lv] : *lvs) {
      const std::string path = std::string(kGroup) + "/" + name;
      EXPECT_NE(Tool({"lvchange", "-an", "--config", once, path}).status, 0) << name;
      EXPECT_NE(Tool({"lvremove", "-y", "--config", once, path}).status, 0) << name;
    }
    EXPECT_EQ(client().List().value.size(), 1U) << "the copy was done before";
  }
  const v1::Volume copy = MustCreate(SpecOf(source));
  EXPECT_OK(CheckPattern(NodeOf(copy), 22, kRaw));
  EXPECT_OK(client().Delete(copy.volume_id()));
  EXPECT_OK(client().Delete(source.volume_id()));
  EXPECT_TRUE(ComesBackEmpty());
}

// quarryd is killed or stopped in the middle of copies that take half a minute.
class InterruptedCopies : public CopiesTest {
 protected:
  static constexpr int64_t kLong = 96 * kMi;

  void StartWith(const std::string& rate) {
    QuarrydOptions options;
    options.arguments = {"--copy-rate=" + rate};
    StartQuarryd(options);
  }
  static VolumeSpec LongSpec(const v1::Volume& source, const std::string& type) {
    VolumeSpec spec{"copy", TypeParameters(type), BlockCapability(), kLong};
    spec.source = source.volume_id();
    return spec;
  }
  // Begins a copy, and lets `end` end quarryd in the middle. Returns the name of the copy's logical volume.
  template <typename End>
  std::string Interrupt(const VolumeSpec& spec, End end) {
    std::jthread caller([&] {
      CsiClient own(kSocket);
      (void)own.Create(spec);  // ends with quarryd
    });
    std::string lv;
    EXPECT_TRUE(Eventually(
        [&] {
          lv = Unfinished();
          return !lv.empty();
        },
        180))
        << "no copy has begun";
    std::this_thread::sleep_for(std::chrono::seconds(10));
    EXPECT_EQ(Unfinished(), lv) << "the copy was done before";
    end();
    return lv;
  }
  // The volume, once the copy is done.
  v1::Volume Finished(const VolumeSpec& spec) {
    v1::Volume volume;
    EXPECT_TRUE(Eventually(
        [&] {
          const auto made = client().Create(spec);
          EXPECT_TRUE(made.ok() || made.code() == grpc::StatusCode::UNAVAILABLE ||
                      made.code() == grpc::StatusCode::ABORTED)
              << made.text();
          volume = made.value.volume();
          return made.ok();
        },
        300));
    return volume;
  }
  void GiveBack(const v1::Volume& copy, const v1::Volume& source) {
    EXPECT_OK(client().Delete(copy.volume_id()));
    EXPECT_OK(client().Delete(source.volume_id()));
    EXPECT_TRUE(ComesBackEmpty());
  }
};

TEST_F(InterruptedCopies, GoOnAfterAKillAndAStop) {
  ASSERT_NO_FATAL_FAILURE(StartWith("3MiB"));
  const v1::Volume source = MustCreate({"source", TypeParameters("linear"), BlockCapability(), kLong});
  ASSERT_OK(WritePattern(NodeOf(source), 41, kLong));
  const VolumeSpec spec = LongSpec(source, "raid1");
  const std::string killed = Interrupt(spec, [&] { quarryd().Kill(); });
  ASSERT_FALSE(HasFailure());
  ASSERT_NO_FATAL_FAILURE(StartWith("3MiB"));
  EXPECT_EQ(client().List().value.size(), 1U) << "nobody sees it";
  const std::string stopped = Interrupt(spec, [&] { EXPECT_EQ(quarryd().Stop(), 0); });
  EXPECT_EQ(stopped, killed) << "it began again";
  // As after a boot. Somebody uses the source in between.
  ASSERT_OK(WritePattern(NodeOf(source), 42, kLong / 2));
  for (const std::string& name : {killed, LvNameIn(source.volume_id())}) {
    ASSERT_EQ(Tool({"lvchange", "-an", std::string(kGroup) + "/" + name}).status, 0);
  }
  ASSERT_NO_FATAL_FAILURE(StartWith("0"));
  const v1::Volume copy = Finished(spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(LvNameIn(copy.volume_id()), killed) << "it began again";
  EXPECT_EQ(Unfinished(), "");
  const std::string compared =
      "cmp " + NodeOf(copy) + " /dev/" + std::string(kGroup) + "/" + LvNameIn(source.volume_id());
  EXPECT_EQ(Tool({"lvchange", "-ay", "-K", std::string(kGroup) + "/" + LvNameIn(source.volume_id())}).status,
            0);
  EXPECT_EQ(Tool({"sh", "-c", compared}).status, 0);
  EXPECT_OK(CheckPattern(NodeOf(copy), 42, kLong / 2));
  GiveBack(copy, source);
}

TEST_F(InterruptedCopies, OfAVolumeInUseGoOnFromANewInstant) {
  ASSERT_NO_FATAL_FAILURE(StartWith("3MiB"));
  const v1::Volume source = MustCreate({"source", TypeParameters("linear"), BlockCapability(), kLong});
  ASSERT_NO_FATAL_FAILURE(Use(source, "source", BlockCapability()));
  ASSERT_OK(WritePattern(TargetPath("source"), 44, kLong));
  VolumeSpec spec = LongSpec(source, "linear");
  spec.parameters["inuse"] = "cow";
  const std::string killed = Interrupt(spec, [&] { quarryd().Kill(); });
  ASSERT_FALSE(HasFailure());
  ASSERT_OK(WritePattern(TargetPath("source"), 45, kLong / 2));
  ASSERT_NO_FATAL_FAILURE(StartWith("0"));
  const v1::Volume copy = Finished(spec);
  ASSERT_FALSE(HasFailure());
  EXPECT_EQ(LvNameIn(copy.volume_id()), killed) << "it began again";
  EXPECT_EQ(Tool({"cmp", NodeOf(copy), TargetPath("source")}).status, 0);
  EXPECT_OK(CheckPattern(NodeOf(copy), 45, kLong / 2));
  EXPECT_TRUE(Eventually([&] {
    const auto lvs = group().Lvs();
    return lvs.has_value() && lvs->size() == 2;
  })) << "a store is left";
  ASSERT_NO_FATAL_FAILURE(Release(source, "source"));
  GiveBack(copy, source);
}

}  // namespace
}  // namespace quarry::vm
