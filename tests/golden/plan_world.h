// A node with four disks whose engine writes down every step that it executes. The names of its volumes are
// fixed, so the texts of the steps are the same in each run.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/model/config.h"
#include "engine/plan/plan_volume.h"
#include "tests/golden/plan_case.h"
#include "tests/unit/engine/repair_world.h"

namespace quarry::engine {

// The texts of the executed steps. Thread-safe.
class StepList final : public StepWatcher {
 public:
  void Before(const std::string& step) override;
  void After(const std::string& /*step*/) override {}
  std::vector<std::string> Take();  // and forget them

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;  // guarded by mutex_
};

class PlanWorld : public MendingTest {
 public:
  PlanWorld();
  ~PlanWorld() override;
  PlanWorld(const PlanWorld&) = delete;
  PlanWorld& operator=(const PlanWorld&) = delete;

  using MendingTest::Begin;
  using MendingTest::clock_;
  using MendingTest::dm_;
  using MendingTest::DmUuidOf;
  using MendingTest::engine_;
  using MendingTest::Group;
  using MendingTest::Legs;
  using MendingTest::lvm_;
  using MendingTest::Mend;
  using MendingTest::MendUntilGone;
  using MendingTest::mount_;
  using MendingTest::Pass;
  using MendingTest::SetLegs;
  using MendingTest::SetMissing;
  using MendingTest::Soon;

  // --- The state.

  static void Must(const Status& done);  // the test fails if it did not succeed
  // Instead of the four disks of 100 extents. Before any volume is made.
  void SetDisks(size_t count, uint64_t extents);
  // "qaaaaaaaaaaaaaaaaaaaaaaaaaa" for 'a'.
  static std::string LvName(char letter);
  // A request for a volume with this letter. kMount: ext4.
  static CreateWish Wish(char letter, const Parameters& parameters, uint64_t extents,
                         Access access = Access::kMount);
  // Makes it by Quarry's own plan. Returns its id.
  std::string Make(char letter, const Parameters& parameters, uint64_t extents,
                   Access access = Access::kMount);
  // An unmanaged linear logical volume of 16 extents.
  void MakeForeign(const std::string& name);
  void Format(const std::string& id);  // stages and unstages it
  void Deactivate(char letter);
  void Remove(char letter);
  void Tag(char letter, const std::string& tag);
  void Run(const Plan& plan);
  Catalog Now();

  // --- What may be asked of the engine, with paths /stage/v and /pods/….

  Status Stage(const std::string& id, const Capability& capability = {});
  Status Unstage(const std::string& id);
  Status Publish(const std::string& id, const std::string& target, const Capability& capability = {},
                 bool read_only = false, bool staged = true);
  Status Unpublish(const std::string& id, const std::string& target);
  Status Expand(const std::string& id, uint64_t extents);
  Status Adopt(const std::string& lv_name);
  // A round of repairs. Its obstacles become part of the page.
  Status Repair(RepairCause cause = RepairCause::kDisks);

  // --- The question, once for each case.

  // The steps of a plan that is not executed.
  void Plans(const Result<Plan>& plan);
  void Plans(const Result<CreatePlan>& plan);
  // The steps that the engine executes meanwhile.
  void Does(const std::function<Status()>& ask);

  // The text of the case's file.
  std::string Page(const PlanCase& one) const;

 private:
  StepList list_;
  std::string before_;  // the disks and volumes when the question was asked
  std::vector<std::string> texts_;
  std::vector<std::string> remarks_;  // refusals and obstacles
};

}  // namespace quarry::engine
