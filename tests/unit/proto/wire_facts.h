#pragma once

#include <map>
#include <set>
#include <string>

namespace quarry::proto_test {

// A fact is one line of text that states one thing about an interface, e.g.
//   field csi.v1.Topology.segments = 1 map<string, string>
// The wire table and the generated descriptors are both turned into such lines: what one set has and the
// other lacks is the difference, in words.
using Facts = std::set<std::string>;

// What comments say about items; items are named without their package ("Volume.volume_id").
struct Notes {
  std::set<std::string> items;
  std::set<std::string> required;
  std::map<std::string, std::string> since;      // Only what the item itself says.
  std::map<std::string, std::string> withdrawn;  // Version that dropped the item.
};

// The version an item appeared in: its own, or that of the innermost enclosing item that says one; "" if
// none.
std::string EffectiveSince(const Notes& notes, std::string item);

Facts NoteFacts(const Notes& notes);

}  // namespace quarry::proto_test
