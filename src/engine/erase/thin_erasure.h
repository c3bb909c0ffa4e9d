// The erasure of what was deleted in a thin store. There are two ways, and a deleted volume may need both.
//
// What no snapshot ever shared is zeroed through the deleted volume's own device, and given back to the store
// piece by piece. Nothing of anybody else can be hit that way, and an erasure that was cut off goes on where
// it ended, without a record.
//
// A device that shares chunks, or once did, cannot be zeroed that way: the kernel would write to new chunks.
// So its chunks are zeroed on the store's data device: those that no other device of the pool maps, as a
// metadata snapshot shows. They stay the deleted volume's alone as long as its device exists, is not written
// to, and no snapshot is made of it. Therefore the device is made read-only and kept open exclusively, so
// that neither LVM nor a message can remove it from the pool; and each piece is proven anew
// (plan/proven_write.h). A volume that shares chunks may give some up meanwhile, by overwriting them. Those
// are found by a second look right before the removal. What is given up between that look and the removal
// keeps its bytes on disk, as all that copy-on-write leaves behind.
#pragma once

#include <memory>
#include <vector>

#include "base/call.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "engine/erase/erase_job.h"
#include "engine/model/catalog.h"
#include "engine/world.h"
#include "thin/pool_reader_api.h"

namespace quarry::engine {

struct ThinErasure {
  std::shared_ptr<EraseJob> job;  // of one part; of none if there is nothing to do
  bool whole = false;             // nothing is left behind the job
  Bytes end = {};                 // everything mapped before this was in this or an earlier job
  // On the data device. The other members are about this way only.
  bool in_store = false;
  UniqueFd held = {};                         // the deleted volume's device
  std::vector<thin::ByteRange> pending = {};  // of the data device, in the job
  std::vector<thin::ByteRange> zeroed = {};   // by earlier jobs, since `held` is open; ascending
};

// Makes the next job, which goes on behind those before. The first time `work` is empty. `record` is that of
// the present group, in state erasing. The caller has the group's turn. kPrecondition: somebody has the
// volume open, or its store is not healthy.
Status BeginThinErasure(const Record& record, ThinErasure& work, const World& world, const Call& call);

// The job has ended without a failure.
void NoteErased(ThinErasure& work);

// Right before the removal, under the turn in which it happens: whether no byte is left that only this volume
// has. Erases the last few itself. Closes the device. False: begin another job.
Result<bool> MayThinGo(const Record& record, ThinErasure& work, const World& world, const Call& call);

}  // namespace quarry::engine
