// The location of this node in CSI's terms: one segment, "<driver name>/node" = node id (csi-spec section 9).
// Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace quarry::csi {

using Segments = std::map<std::string, std::string>;

// The name of a plugin: at most 63 of [a-z0-9.-], and every label of the dotted name begins and ends with a
// letter or digit. CSI allows capital letters too. They are refused here, because the name is also the prefix
// of the topology key, which must not contain them.
Status CheckDriverName(std::string_view name);

// A node id is a topology value too: 1 to 63 of [A-Za-z0-9._-], alphanumeric at both ends.
Status CheckNodeId(std::string_view id);

class NodeTopology {
 public:
  // Both have passed the checks above.
  NodeTopology(std::string_view driver_name, std::string node_id);

  const Segments& segments() const { return segments_; }
  const std::string& node_id() const { return node_id_; }

  // Whether `place` can reach a volume of this node. A place without segments is any node. A place with an
  // unknown key is another node.
  bool Matches(const Segments& place) const;

  // Whether `requisite` is not empty and every place in it is this node only.
  bool IsJustHere(const std::vector<Segments>& requisite) const;

  // kInvalidArgument for a malformed place; the error names it. kNoSpace if `requisite` is not empty and no
  // place in it is this node. `preferred` need not contain this node: it is only a preference.
  Status CheckRequirement(std::string_view field, const std::vector<Segments>& requisite,
                          const std::vector<Segments>& preferred) const;

 private:
  std::string node_id_;
  Segments segments_;
};

// Checks keys and values against CSI's rules. `field` is the path of the segments in the request.
Status CheckSegments(std::string_view field, const Segments& segments);

}  // namespace quarry::csi
