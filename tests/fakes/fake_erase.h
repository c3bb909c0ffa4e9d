// An EraseApi without disks: it remembers what was erased.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "dm/erase_api.h"
#include "tests/fakes/faults.h"

namespace quarry::fakes {

// Thread-safe.
class FakeErase final : public dm::EraseApi {
 public:
  struct Piece {
    std::string pv_uuid;
    Bytes offset;
    Bytes length;
    dm::EraseMethod method;
  };

  // `device` has this PV's label. If no PV was added, every device counts as the PV that the caller names.
  void AddPv(const std::string& device, const std::string& pv_uuid);
  void SetCanDiscard(bool can);
  // Runs after each piece, without locks: to stop, kill or inspect.
  void OnPiece(std::function<void(const Piece&)> hook);

  // Every piece that was erased, in order.
  std::vector<Piece> Pieces() const;
  // True if every byte of [offset, offset + length) was erased with kZero.
  bool IsZeroed(const std::string& pv_uuid, Bytes offset, Bytes length) const;
  void Forget();  // as if new data had been written everywhere

  // Faults: "Erase" (before anything), "Piece" (before the n-th piece of all calls together).
  Status Erase(const dm::EraseRange& range, dm::EraseMethod method, const Call& call,
               const std::function<void(Bytes)>& progress) override;
  // Makes a hole in the file of the device. Fault: "ZeroAndFree".
  Status Zero(int fd, const std::vector<dm::OpenRange>& ranges, const Call& call) override;
  Status ZeroAndFree(int fd, int data, Bytes offset, Bytes length, const Call& call) override;

  Faults faults;

 private:
  Status CheckDevice(const dm::EraseRange& range, dm::EraseMethod method) const;

  mutable std::mutex mutex_;
  std::map<std::string, std::string> labels_;  // device → pv uuid
  bool can_discard_ = true;
  std::function<void(const Piece&)> hook_;
  std::vector<Piece> pieces_;
};

}  // namespace quarry::fakes
