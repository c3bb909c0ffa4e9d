#include "ctl/store_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int64_t kGi = int64_t{1} << 30;

pb::ThinStore Fast() {
  pb::ThinStore store;
  store.set_name("fast");
  store.set_mode("rw");
  store.set_store_id("main.qf");
  store.set_logical_volume("qf");
  store.set_layout("raid1");
  store.set_condition("healthy");
  store.set_chunk_bytes(131072);
  store.set_size_bytes(100 * kGi);
  store.set_promised_bytes(60 * kGi);
  store.set_free_bytes(40 * kGi);
  store.mutable_use()->set_data_bytes(25 * kGi / 2);
  store.mutable_use()->set_metadata_bytes(int64_t{3} << 20);
  store.mutable_use()->set_metadata_size_bytes(int64_t{200} << 20);
  store.set_legs(4);
  store.set_volumes(2);
  return store;
}

pb::GetStatusResponse Node() {
  pb::GetStatusResponse status;
  auto& pool = *status.add_pools();
  pool.set_name("main");
  pool.set_volume_group("vg");
  *pool.add_stores() = Fast();
  return status;
}

pb::GetStoreResponse Shown() {
  pb::GetStoreResponse shown;
  shown.set_pool("main");
  shown.set_volume_group("vg");
  *shown.mutable_store() = Fast();
  auto& volume = *shown.add_volumes();
  volume.set_kind("volume");
  volume.set_volume_id("main.qa");
  volume.set_name("database");
  volume.set_logical_volume("qa");
  volume.set_size_bytes(50 * kGi);
  volume.set_mapped_bytes(10 * kGi);
  auto& other = *shown.add_volumes();
  other.set_kind("unmanaged");
  other.set_logical_volume("by_hand");
  other.set_size_bytes(10 * kGi);
  return shown;
}

TEST(StoreTable, HasALineForEachStore) {
  EXPECT_EQ(StoreTable(Node()),
            "POOL  NAME  MODE  CONDITION  LAYOUT  CHUNK    SIZE     PROMISED  FREE    DATA    METADATA  "
            "VOLUMES  ID\n"
            "main  fast  rw    healthy    raid1   128 KiB  100 GiB  60 GiB    40 GiB  12.5 %  1.5 %     "
            "2        main.qf\n");
}

TEST(StoreTable, WhatIsWrongFollows) {
  pb::GetStatusResponse status = Node();
  auto& store = *status.mutable_pools(0)->mutable_stores(0);
  store.set_condition("degraded");
  store.set_degraded_legs(1);
  store.set_detail("data: leg 1 is away");
  auto& unmade = *status.mutable_pools(0)->add_stores();
  unmade.set_name("vast");
  unmade.set_mode("not-made");
  unmade.set_problem("the pool has no room");
  unmade.set_size_bytes(900 * kGi);
  auto& other = *status.add_pools();
  other.set_name("other");
  other.set_problem("its group is missing");
  const std::string table = StoreTable(status);
  EXPECT_THAT(table, HasSubstr("  degraded (1 of 4 legs)  "));
  EXPECT_THAT(table, HasSubstr("\nstore main/fast: data: leg 1 is away\n"));
  EXPECT_THAT(table, HasSubstr("\nstore main/vast: the pool has no room\n"));
  EXPECT_THAT(table, EndsWith("pool other: its group is missing\n"));
}

TEST(StoreTable, ANodeWithoutStoresHasALine) {
  EXPECT_EQ(StoreTable(pb::GetStatusResponse()), "there are no thin stores\n");
}

TEST(StoreListJson, HasThePoolOfEachStore) {
  const auto rows = nlohmann::json::parse(StoreListJson(Node()));
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["pool"], "main");
  EXPECT_EQ(rows[0]["volume_group"], "vg");
  EXPECT_EQ(rows[0]["name"], "fast");
  EXPECT_EQ(rows[0]["promised_bytes"], 60 * kGi);
  EXPECT_EQ(rows[0]["use"]["metadata_bytes"], 3 << 20);
  EXPECT_FALSE(rows[0].contains("percent")) << "nothing is being rebuilt";
}

TEST(StorePage, HasTheVolumesOfTheStore) {
  const std::string page = StorePage(Shown());
  EXPECT_THAT(page, StartsWith("name         fast\nid           main.qf\n"));
  EXPECT_THAT(page, HasSubstr("\nthin pool    vg/qf\n"));
  EXPECT_THAT(page, HasSubstr("\nfree         40 GiB (42949672960 bytes)\n"));
  EXPECT_THAT(page, HasSubstr("\ndata         12.50 GiB written, 12.5 %\n"));
  EXPECT_THAT(page, HasSubstr("\nmetadata     3 MiB of 200 MiB used, 1.5 %\n"));
  EXPECT_THAT(page, HasSubstr("\nVOLUME    KIND       SIZE    MAPPED  ID\n"
                              "database  volume     50 GiB  10 GiB  main.qa\n"
                              "by_hand   unmanaged  10 GiB\n"));
  EXPECT_THAT(page, Not(HasSubstr("not all known")));
}

TEST(StorePage, ShowsExclusiveBytesOnlyIfTheyWereCounted) {
  pb::GetStoreResponse shown = Shown();
  shown.mutable_volumes(0)->set_exclusive_bytes(4 * kGi);
  EXPECT_THAT(StorePage(shown), HasSubstr("\nVOLUME    KIND       SIZE    MAPPED  EXCLUSIVE  ID\n"
                                          "database  volume     50 GiB  10 GiB  4 GiB      main.qa\n"));
}

TEST(StorePage, SaysWhyBytesAreMissing) {
  pb::GetStoreResponse shown = Shown();
  shown.set_unknown("thin store vg/qf is not started");
  shown.mutable_store()->set_mode("not-started");
  shown.mutable_store()->clear_use();
  shown.mutable_store()->set_problem("too many disks are missing");
  const std::string page = StorePage(shown);
  EXPECT_THAT(page, EndsWith("the bytes of volumes are not all known: thin store vg/qf is not started\n"));
  EXPECT_THAT(page, HasSubstr("\nmode         not-started\n             too many disks are missing\n"));
  EXPECT_THAT(page, AllOf(Not(HasSubstr("\ndata ")), Not(HasSubstr("\nmetadata "))));
}

TEST(StoreJson, LeavesOutWhatIsNotKnown) {
  const auto shown = nlohmann::json::parse(StoreJson(Shown()));
  EXPECT_EQ(shown["store"]["mode"], "rw");
  EXPECT_EQ(shown["volumes"][0]["mapped_bytes"], 10 * kGi);
  EXPECT_FALSE(shown["volumes"][0].contains("exclusive_bytes"));
  EXPECT_FALSE(shown["volumes"][1].contains("mapped_bytes"));
}

TEST(Percent, HasOneDigitBehindThePoint) {
  EXPECT_EQ(Percent(1, 3), "33.3 %");
  EXPECT_EQ(Percent(0, 0), "0 %");
  EXPECT_EQ(Percent(5, 5), "100.0 %");
}

}  // namespace
}  // namespace quarry::ctl
