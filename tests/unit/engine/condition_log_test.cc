// A condition is logged when it changes, and not again.
#include "engine/repair/condition_log.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/captured_log.h"

namespace quarry::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Health Degraded() {
  return {.ailments = {{Problem::kDegraded, "DiskMissing", "bring the disk back"}}, .note = {}};
}
Health Syncing(const std::string& percent) {
  return {.ailments = {}, .note = "syncing, " + percent};
}

class ConditionLogTest : public testing::Test {
 protected:
  // A look at a pool whose only volume has this health.
  void Look(const Health& health) { conditions_.Keep({{"v1", conditions_.Note("v1", health)}}); }

  CapturedLog captured_;
  ConditionLog conditions_{captured_.log(), "default"};
};

TEST_F(ConditionLogTest, AVolumeThatIsHealthyFromTheStartIsNotLogged) {
  Look({});
  Look({});
  EXPECT_THAT(captured_.Lines(), IsEmpty());
}

TEST_F(ConditionLogTest, EachChangeOfAConditionIsLoggedOnce) {
  Look(Degraded());
  EXPECT_THAT(captured_.Lines(),
              ElementsAre(AllOf(
                  HasSubstr("warning"), HasSubstr("a volume's condition has changed"),
                  HasSubstr(R"(volume="v1" was="healthy" is="degraded" detail="bring the disk back")"))));
  Look(Degraded());
  EXPECT_THAT(captured_.Lines(), IsEmpty());
  Look({});
  EXPECT_THAT(captured_.Lines(),
              ElementsAre(AllOf(HasSubstr("info"), HasSubstr(R"(was="degraded" is="healthy")"))));
}

TEST_F(ConditionLogTest, ProgressIsNoChangeOfACondition) {
  Look(Syncing("40 %"));
  EXPECT_THAT(captured_.Lines(), ElementsAre(HasSubstr(R"(is="syncing" detail="syncing, 40 %")")));
  Look(Syncing("41 %"));
  EXPECT_THAT(captured_.Lines(), IsEmpty());
}

TEST_F(ConditionLogTest, AnAbortedLookChangesNoKnownCondition) {
  Look(Degraded());
  EXPECT_EQ(conditions_.Note("v1", {}), "healthy");
  EXPECT_THAT(captured_.Lines(), testing::SizeIs(2));
  Look({});
  EXPECT_THAT(captured_.Lines(), ElementsAre(HasSubstr(R"(was="degraded" is="healthy")")));
}

TEST_F(ConditionLogTest, AVolumeThatIsGoneIsForgotten) {
  Look(Degraded());
  conditions_.Keep({});
  EXPECT_THAT(captured_.Lines(), testing::SizeIs(1));
  Look(Degraded());
  EXPECT_THAT(captured_.Lines(), ElementsAre(HasSubstr(R"(was="healthy" is="degraded")")));
}

TEST_F(ConditionLogTest, ObstaclesAreLoggedOnlyIfTheyAreOthersThanBefore) {
  conditions_.NoteObstacles({"add a disk", "free space"});
  EXPECT_THAT(captured_.Lines(),
              ElementsAre(HasSubstr(R"(repair has to wait pool="default" detail="add a disk; free space")")));
  conditions_.NoteObstacles({"add a disk", "free space"});
  conditions_.NoteObstacles({});
  conditions_.NoteObstacles({"add a disk", "free space"});
  EXPECT_THAT(captured_.Lines(), IsEmpty());
  conditions_.NoteObstacles({"add a disk"});
  EXPECT_THAT(captured_.Lines(), ElementsAre(HasSubstr(R"(pool="default" detail="add a disk")")));
}

}  // namespace
}  // namespace quarry::engine
