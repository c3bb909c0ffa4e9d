// Room in a group's metadata area: LVM writes the group's whole text anew with each commit, old and new must
// fit, and a group whose area is full takes no change any more, not even the tag that a deletion begins with.
// So what would make the text longer for good is refused while there is still room for the commits that the
// volumes that are there may need.
#pragma once

#include "engine/model/catalog.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

// How much longer a plan's commits make the text, at most. Removals make it shorter and are not counted.
Bytes MetadataFor(const Plan& plan);
// The same of a new volume.
Bytes MetadataForVolume(const lvm::Geometry& geometry);

// What is not given to new volumes: for staging, growing file systems, deleting and erasing each of those
// that there are.
Bytes MetadataKept(const Catalog& catalog);

// kNoSpace saying what is left and what helps, if `more` does not fit beside what is kept.
Status CheckMetadataRoom(const Catalog& catalog, Bytes more);

}  // namespace quarry::engine
