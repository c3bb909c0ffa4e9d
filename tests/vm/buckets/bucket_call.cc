// Starts everything that quarryd starts for buckets, looks at the buckets as it does, makes one call, prints
// the answer and exits:
//   bucket_call create NAME KEY=VALUE…    bucket_call grant ACCOUNT ID    bucket_call revoke ACCOUNT ID
//   bucket_call delete ID                 bucket_call list
// QUARRY_CRASH_ORDER names an order to die at a step of buckets. The S3 gateway must answer.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "daemon/locking/group_locks.h"
#include "daemon/locking/node_lock.h"
#include "daemon/settings/options.h"
#include "daemon/wiring/node_buckets.h"
#include "daemon/wiring/node_world.h"
#include "lvm/run/lvm_config.h"
#include "tests/vm/crash/crash_at_step.h"

namespace quarry::vm {
namespace {

using std::chrono::seconds;

constexpr seconds kLimit{60};
constexpr seconds kSettle{30};

// Lets only the steps of the call itself count, not those with which a start puts the buckets in order.
class CallSteps final : public engine::StepWatcher {
 public:
  explicit CallSteps(CrashAtStep& crash) : crash_(crash) {}
  void Before(const std::string& step) override {
    if (counts_) {
      crash_.Before(step);
    }
  }
  void After(const std::string& step) override {
    if (counts_) {
      crash_.After(step);
    }
  }
  void Begin() { counts_ = true; }

 private:
  CrashAtStep& crash_;
  bool counts_ = false;
};

Result<std::string> Answer(bucket::Buckets& buckets, const std::vector<std::string>& words,
                           const Call& call) {
  const std::string& what = words.at(0);
  if (what == "create") {
    bucket::CreateRequest request{.name = words.at(1), .parameters = {}};
    for (size_t i = 2; i < words.size(); ++i) {
      const size_t equals = words[i].find('=');
      request.parameters[words[i].substr(0, equals)] = words[i].substr(equals + 1);
    }
    QUARRY_ASSIGN(const auto made, buckets.Create(request, call));
    return made.bucket.id;
  }
  if (what == "grant") {
    QUARRY_ASSIGN(const auto granted,
                  buckets.Grant({words.at(1), {{words.at(2), bucket::Access::kReadWrite}}}, call));
    return granted.secret_key;
  }
  if (what == "revoke") {
    QUARRY_TRY(buckets.Revoke(words.at(1), {words.at(2)}, call));
    return std::string("revoked");
  }
  if (what == "delete") {
    QUARRY_TRY(buckets.Delete(words.at(1), call));
    return std::string("deleted");
  }
  QUARRY_ASSIGN(const auto all, buckets.List(call));
  std::string out;
  for (const bucket::Bucket& one : all) {
    out += fmt::format("{} {} {}\n", one.name, one.serving ? "serves" : "absent", one.problem);
  }
  return out;
}

Result<std::string> Run(const std::vector<std::string>& words, CrashAtStep& crash) {
  QUARRY_ASSIGN(const auto loaded,
                daemon::Load({"--endpoint=unix:///run/quarry-test/csi.sock", "--pool=main=vg",
                              "--s3-listen=127.0.0.1:7070", "--s3-user=nobody", "--erase-rate=0"},
                             {}, "test", "/nonexistent"));
  CallSteps steps(crash);
  const Logger log(LogLevel::kInfo, LogFormat::kText);
  daemon::FlockGroupLocks locks(daemon::kLockDirectory, lvm::LvmConfig{}.locking_dir);
  QUARRY_ASSIGN(const auto world, daemon::NodeWorld::Make(loaded.options, log, {}, &locks));
  engine::Engine engine(loaded.options, world->world(), log);
  QUARRY_TRY(engine.lifecycle().Start(CallWithin(kLimit)));
  QUARRY_ASSIGN(const auto buckets, daemon::MakeBuckets(loaded.options, engine, log, &steps));
  // A round goes on without a bucket whose look takes long, as a mount does after a power cut on a busy
  // machine.
  const Call settle = CallWithin(kSettle);
  while (!buckets->Round(CallWithin(kLimit)) && settle.Check("").has_value()) {
  }
  steps.Begin();
  auto answer = Answer(*buckets, words, CallWithin(kLimit));
  if (words.at(0) == "delete") {
    // The eraser's work belongs to other tests; here the space is only waited for.
    for (int i = 0; i < 600 && engine.lifecycle().Pools(CallWithin(kLimit))->front().erase_pending > Bytes{};
         ++i) {
      (void)Sleep({}, std::chrono::milliseconds(100));
    }
  }
  (void)engine.lifecycle().Stop(CallWithin(kLimit));
  return answer;
}

}  // namespace
}  // namespace quarry::vm

int main(int argc, char** argv) {
  const char* const order = std::getenv("QUARRY_CRASH_ORDER");
  quarry::vm::CrashAtStep crash(order == nullptr ? "/nonexistent" : order);
  const auto answer = quarry::vm::Run({argv + 1, argv + argc}, crash);
  if (!answer.has_value()) {
    fmt::print("{}: {}\n", quarry::CodeName(answer.error().code()), answer.error().message());
    return 1;
  }
  fmt::print("{}\n", *answer);
  return 0;
}
