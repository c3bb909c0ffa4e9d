#include <gtest/gtest.h>

#include "lvm/fresh/metadata_header_reader.h"
#include "tests/unit/lvm/disk_images.h"

namespace quarry::lvm {
namespace {

TEST(HeaderPvReader, ReportsTheGroupOfADisk) {
  const DiskImages images;
  const auto path = [&](const char* name) { return (images.folder() / name).string(); };
  images.Put(path("ours"), "changed", 1);
  images.Put(path("orphan"), "orphans", 1);
  images.Put(path("torn"), "changed", 2);
  DiskImages::Write(path("torn"), std::string(64, 'x'), 512 + 32);  // within the label
  DiskImages::Write(path("blank"), std::string(16384, '\0'));
  HeaderReader headers;
  HeaderPvReader reader(headers);
  const auto facts =
      reader.ReadPvs({path("ours"), path("orphan"), path("torn"), path("blank"), path("nothing")}, Call{});
  ASSERT_TRUE(facts.has_value()) << facts.error().message();
  EXPECT_EQ((*facts)[0].kind, PvFacts::Kind::kPv);
  EXPECT_EQ((*facts)[0].uuid, "rhee3f-5Iq0-ls6J-dzHb-JTHG-eSLX-PViSi0");
  EXPECT_EQ((*facts)[0].group, "v");
  EXPECT_FALSE((*facts)[0].group_uuid.empty());
  EXPECT_EQ((*facts)[1].kind, PvFacts::Kind::kPv);
  EXPECT_EQ((*facts)[1].group, "");
  EXPECT_EQ((*facts)[2].kind, PvFacts::Kind::kDamaged);
  EXPECT_EQ((*facts)[3].kind, PvFacts::Kind::kNoPv);
  EXPECT_EQ((*facts)[4].kind, PvFacts::Kind::kUnreadable);
}

TEST(HeaderPvReader, ACallThatHasEndedIsAFailureToLook) {
  HeaderReader headers;
  HeaderPvReader reader(headers);
  std::stop_source stopped;
  stopped.request_stop();
  EXPECT_EQ(reader.ReadPvs({"/dev/null"}, Call{.stop = stopped.get_token()}).error().code(),
            Code::kCancelled);
}

}  // namespace
}  // namespace quarry::lvm
