// Where this node is, in CSI's terms: one segment, "<driver name>/node" = node id (csi-spec section 9). Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quarry::csi {

using Segments = std::map<std::string, std::string>;

// A plugin's name: at most 63 of [a-z0-9.-], every label of the dotted name begins and ends alphanumeric.
// Narrower than CSI, which allows capitals: the name is also the prefix of the topology key, and there they
// are not allowed.
Status CheckDriverName(std::string_view name);

// A node id is a topology value too: 1 to 63 of [A-Za-z0-9._-], alphanumeric at both ends.
Status CheckNodeId(std::string_view id);

class NodeTopology {
 public:
  // Both have passed the checks above.
  NodeTopology(std::string_view driver_name, std::string node_id);

  const Segments& segments() const { return segments_; }
  const std::string& node_id() const { return node_id_; }

  // Whether a volume of this node can be reached from `place`. A place without segments is anywhere; one with
  // a key that is not ours is not here.
  bool Matches(const Segments& place) const;

  // Whether `requisite` names places, and each is this node and no other.
  bool IsJustHere(const std::vector<Segments>& requisite) const;

  // kInvalidArgument for a malformed place, naming it; kNoSpace if `requisite` names places and none is here.
  // `preferred` may name any place: it is a wish.
  Status CheckRequirement(std::string_view field, const std::vector<Segments>& requisite,
                          const std::vector<Segments>& preferred) const;

 private:
  std::string node_id_;
  Segments segments_;
};

// Keys and values as CSI wants them; `field` is where the segments stand in the request.
Status CheckSegments(std::string_view field, const Segments& segments);

}  // namespace quarry::csi
