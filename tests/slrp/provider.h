// A storage local resource provider of one generation of Mesos, as its plugin sees it: the same calls, in the
// same order, with the same deadlines, retries and checks. What would cost an agent its provider, a disk or
// an operation goes to the report.
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
  std::string mount_root;  // made if need be; targets are below it
  std::string prefix;  // of the names of volumes, as the operations' UUIDs are: its own for every provider
  std::vector<Profile> profiles;
  // Deadlines and intervals are multiplied by this: an emulated machine is slower than any agent's.
  double time_scale = 1;
  std::chrono::milliseconds backoff{10000};  // upper end of the first pause before a retry, doubled each time
  // Whether paths are looked at after publishing: not where the plugin only pretends to mount.
  bool looks_at_mounts = true;
};

// Operations may come from several threads.
class Provider {
 public:
  // Both outlive the provider. The books are its own while it lives.
  Provider(ProviderOptions options, Books& books, Report& report);
  ~Provider();

  // From the socket to READY: probe, capabilities, recovery (of every published disk at once, after a
  // reboot), pending operations, first reconciliation. False: the provider is lost, and the report says why.
  bool Start(bool after_reboot);
  // The plugin's container ended and was launched again: the service is looked for anew.
  bool Restarted();
  // Calls may be cut short by a plugin that is being killed: no violation of the plugin's.
  void Disturb(bool on) { disturbed_ = on; }

  // One ListVolumes and a GetCapacity per profile, all at once, and the books compared.
  bool Reconcile();
  // The set of profiles changes: reconciled with the new one.
  bool ChangeProfiles(std::vector<Profile> profiles);
  // Size of a profile's pool, as of the last reconciliation.
  uint64_t Pool(const std::string& profile) const;
  std::vector<Profile> profiles() const;
  Report& report() { return report_; }
  // Volumes that were listed and are in no book of ours.
  std::vector<Listed> PreExisting() const;

  // CREATE_DISK from a pool: its id, nullopt if it failed. Waits while operations are dropped.
  std::optional<std::string> CreateDisk(const std::string& profile, uint64_t size);
  // The same in an odd size that a framework may carve: to be refused, or to be met to the byte.
  void CreateOddDisk(const std::string& profile, uint64_t size);
  // CreateVolume of the same name again and again, at once, as after deadlines: one volume, one answer.
  void RepeatCreate(const std::string& id);
  // CREATE_DISK of one that was there before.
  bool AdoptDisk(const Listed& volume, const std::string& profile);
  bool DestroyDisk(const std::string& id);

  bool PublishDisk(const std::string& id);
  bool UnpublishDisk(const std::string& id);
  // As after a publication that failed: of a path at which nothing ever was.
  void UnpublishNever(const std::string& id);

 private:
  // One disk operation: dropped while a reconciliation is pending, and a reconciliation waits for it.
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
  bool reconciling_ = false;  // waiting or under way: operations are dropped
  std::atomic<int> names_ = 0;
  std::atomic<bool> disturbed_ = false;
};

}  // namespace quarry::slrp
