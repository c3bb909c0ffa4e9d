// The space in a group's metadata area. LVM writes the group's whole text again with each commit, and the old
// and the new text must fit. A group whose area is full accepts no change, not even the tag with which a
// deletion begins. So changes that would make the text longer for good are refused while there is still space
// for the commits that existing volumes may need.
#pragma once

#include "engine/model/catalog.h"
#include "engine/plan/actions.h"

namespace quarry::engine {

// The fullest metadata area of a group. Each commit is written to all areas, so this one decides.
struct MetadataArea {
  Bytes size, free;  // both 0: no present disk has an area in use
};
// Pure.
MetadataArea FullestArea(const lvm::VolumeGroup& group);

// Upper limit for the growth of the text by a plan's commits. Removals make it shorter and are not counted.
Bytes MetadataFor(const Plan& plan);
// The same for a new volume.
Bytes MetadataForVolume(const lvm::Geometry& geometry);

// OK if `more` fits beside the space that is kept for staging, file system growth, deletion and erasing of
// each existing volume. kNoSpace gives the sizes and the remedy.
Status CheckMetadataRoom(const Catalog& catalog, Bytes more);

}  // namespace quarry::engine
