// What every VM test starts from: a volume group "vg" on all blank disks, quarryd serving it as pool "main",
// and a client. And what every one must leave behind: nothing.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/vm/kit/csi_client.h"
#include "tests/vm/kit/pattern.h"
#include "tests/vm/kit/quarryd_process.h"
#include "tests/vm/kit/shell.h"
#include "tests/vm/kit/volume_group.h"

namespace quarry::vm {

inline constexpr char kGroup[] = "vg";
inline constexpr char kPool[] = "main";
inline constexpr char kSocket[] = "/run/quarry-test/csi.sock";
inline constexpr char kAdminEndpoint[] = "unix:///run/quarry/admin.sock";  // the default

class VmTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { MakeGroup(); }
  // For tests that want another group: arguments of vgcreate.
  static void MakeGroup(const std::vector<std::string>& how = {"--metadatasize", "64m"});
  static void TearDownTestSuite();
  void SetUp() override;
  // Fails the test if a volume, a mount or an extent is left over, or if quarryd cannot be stopped in order.
  void TearDown() override;

  // For tests that start quarryd themselves, or not at all.
  virtual bool StartsQuarryd() const { return true; }
  void StartQuarryd(const QuarrydOptions& options = {});
  // The same for a process that may end while it starts: what WaitReady says.
  Status TryStartQuarryd(const QuarrydOptions& options);
  // SIGKILL and a new process: what a crash or an upgrade gone wrong looks like from outside.
  void KillAndRestart();

  CsiClient& client() { return *client_; }
  QuarrydProcess& quarryd() { return *quarryd_; }
  bool HasQuarryd() const { return quarryd_ != nullptr; }  // not if it could not even be started
  static VolumeGroup& group() { return *group_; }
  static int64_t TotalExtents() { return total_extents_; }

  // A volume that must be made; fails the test and returns an empty one if it is not.
  v1::Volume MustCreate(const VolumeSpec& spec);
  // Staging directory, made as a CO makes it, and a target below a parent that exists.
  static std::string StagingPath(const std::string& name);
  static std::string TargetPath(const std::string& name);
  // LV of a volume, by the id it was given.
  static std::string LvOf(const v1::Volume& volume);
  static std::string NodeOf(const v1::Volume& volume) {
    return std::string("/dev/") + kGroup + "/" + LvOf(volume);
  }
  // The group has all of its extents back; clearing them may still be under way for a while.
  static testing::AssertionResult ComesBackEmpty(int seconds = 120);

 private:
  void CleanUpByForce();

  static std::unique_ptr<VolumeGroup> group_;
  static int64_t total_extents_;
  std::unique_ptr<QuarrydProcess> quarryd_;
  std::unique_ptr<CsiClient> client_;
};

// Polls until it holds.
bool Eventually(const std::function<bool()>& holds, int seconds = 60);

template <typename Response>
testing::AssertionResult IsOk(const Reply<Response>& reply) {
  if (reply.ok()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "code " << reply.code() << ": " << reply.text();
}

template <typename T>
testing::AssertionResult IsOk(const Result<T>& result) {
  if (result.has_value()) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << CodeName(result.error().code()) << ": " << result.error().message();
}

// The call failed with this code, and says this.
template <typename Response>
testing::AssertionResult Fails(const Reply<Response>& reply, grpc::StatusCode code,
                               const std::string& words = {}) {
  if (reply.code() != code) {
    return testing::AssertionFailure()
           << "expected code " << code << ", got " << reply.code() << ": " << reply.text();
  }
  if (reply.text().find(words) == std::string::npos) {
    return testing::AssertionFailure() << "the message does not name '" << words << "': " << reply.text();
  }
  return testing::AssertionSuccess();
}

}  // namespace quarry::vm

#define ASSERT_OK(call) ASSERT_TRUE(::quarry::vm::IsOk(call))
#define EXPECT_OK(call) EXPECT_TRUE(::quarry::vm::IsOk(call))
