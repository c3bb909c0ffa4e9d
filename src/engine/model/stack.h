// The block devices of an active volume, one on top of the other. At the bottom is its logical volume's
// device, at the top the device that users of the volume get. Quarry opens no device on a logical volume, so
// both are the same device.
#pragma once

#include "dm/dm_api.h"
#include "mount/mount_api.h"

namespace quarry::engine {

// A value: the devices as the kernel described them when Node::StackOn (pool/node.h) looked.
struct Stack {
  // The logical volume's device: LVM activates, suspends, reloads and deactivates it.
  dm::Device lv;

  // The device that holds the data as users see them. It is probed, formatted, checked, mounted, published
  // raw, kept open, made read-only and measured.
  const dm::Device& top() const { return lv; }
  // The number of the top device, by which the mount table names it.
  mount::DeviceNumber number() const { return {top().major, top().minor}; }
};

}  // namespace quarry::engine
