// A storage local resource provider of one generation of Mesos, as its plugin sees it: the same calls in the
// same order, with the same deadlines, retries and checks. Anything that would cost an agent its provider, a
// disk or an operation goes to the report.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/slrp/books.h"
#include "tests/slrp/deployment.h"
#include "tests/slrp/generation.h"
#include "tests/slrp/report.h"

namespace quarry::slrp {

struct ProviderOptions {
  Generation generation = kGenerations.back();
  std::string socket;      // a path
  std::string mount_root;  // created if necessary; targets are below it
  std::string prefix;      // of volume names; different for every provider, like the operations' UUIDs
  std::vector<Profile> profiles;
  // Multiplies deadlines and intervals, because an emulated machine is slower than any agent.
  double time_scale = 1;
  std::chrono::milliseconds backoff{
      10000};  // upper limit of the first pause before a retry; doubles each time
  // Checks paths after publishing. False if the plugin only pretends to mount.
  bool looks_at_mounts = true;
};

// Several threads may call the operations.
class Provider {
 public:
  // Both must outlive the provider. Only the provider uses the books while it lives.
  Provider(ProviderOptions options, Books& books, Report& report);
  ~Provider();

  // From the socket to READY: probe, capabilities, recovery (after a reboot, of every published disk at
  // once), pending operations, first reconciliation. False: the provider is lost, and the report has the
  // reason.
  bool Start(bool after_reboot);
  // The plugin's container ended and was launched again: connects and negotiates again.
  bool Restarted();
  // While on, an interrupted call is not a violation, because the plugin is being killed.
  void Disturb(bool on) { disturbed_ = on; }

  // Makes one ListVolumes and one GetCapacity per profile, all at once, and compares the books.
  bool Reconcile();
  // Changes the set of profiles and reconciles.
  bool ChangeProfiles(std::vector<Profile> profiles);
  // Size of a profile's pool, as of the last reconciliation.
  uint64_t Pool(const std::string& profile) const;
  std::vector<Profile> profiles() const;
  Report& report() { return report_; }
  // Volumes that were listed and are not in the books.
  std::vector<Listed> PreExisting() const;

  // CREATE_DISK from a pool. Returns the id; nullopt if it failed. Waits while operations are dropped.
  std::optional<std::string> CreateDisk(const std::string& profile, uint64_t size);
  // The same with an odd size that a framework may carve. The plugin must refuse it or meet it to the byte.
  void CreateOddDisk(const std::string& profile, uint64_t size);
  // Repeats CreateVolume of one name at once, as after deadlines: there must be one volume and one answer.
  void RepeatCreate(const std::string& id);
  // CREATE_DISK of a pre-existing disk.
  bool AdoptDisk(const Listed& volume, const std::string& profile);
  bool DestroyDisk(const std::string& id);

  bool PublishDisk(const std::string& id);
  bool UnpublishDisk(const std::string& id);
  // Unpublishes a path that was never published, as after a failed publication.
  void UnpublishNever(const std::string& id);

 private:
  // One disk operation. It is dropped while a reconciliation is pending, and a reconciliation waits for it.
  class Operation {
   public:
    explicit Operation(Provider& provider);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    Provider& provider_;
  };

  std::chrono::milliseconds Scaled(std::chrono::milliseconds time) const;
  bool WaitForSocket();
  bool Negotiate();
  bool AskServices();
  bool Recover();
  bool RunPending();
  bool Fatal(std::string_view rule, const std::string& what, const grpc::Status& status);
  bool FailUnlessDisturbed(std::string_view rule, const std::string& what, const grpc::Status& status);
  void CompareBooks(const Listing& listing);
  Profile FindProfile(const std::string& name) const;
  grpc::Status Retrying(const std::function<grpc::Status()>& call);
  std::optional<std::string> CreateNamed(const std::string& name, const Profile& profile, uint64_t size);
  std::string Place(const std::string& id) const;
  std::string Target(const std::string& id) const;
  std::string Staging(const std::string& id) const;
  grpc::Status PublishAt(const Disk& disk);
  void CheckPublished(const Disk& disk);
  std::shared_ptr<Plugin> plugin() const;

  const ProviderOptions options_;
  Books& books_;
  Report& report_;
  Offer offer_;

  mutable std::mutex mutex_;  // books, pools, profiles, plugin
  std::condition_variable changed_;
  std::shared_ptr<Plugin> plugin_;
  std::vector<Profile> profiles_;
  std::map<std::string, uint64_t> pools_;
  std::vector<Listed> pre_existing_;
  int operations_ = 0;        // in flight; a reconciliation waits for them
  bool reconciling_ = false;  // waiting or running: operations are dropped
  std::atomic<int> names_ = 0;
  std::atomic<bool> disturbed_ = false;
};

}  // namespace quarry::slrp
