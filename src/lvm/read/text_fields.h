// The assignments of one section of a metadata text, each of which must be understood. For text_snapshot.cc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "lvm/read/metadata_text.h"

namespace quarry::lvm::text {

// kUnsupported: only LVM can say what this is.
Error AskLvm(std::string what);

// Every reading takes a key out; what is left at the end was not understood.
class Fields {
 public:
  // kUnsupported if the key was there before.
  Status Add(std::string_view key, std::span<const TextValue> values);
  bool Has(std::string_view key) const;

  // A number of anything, of extents: below 2^40 and 2^29, so that nothing that is computed of them
  // overflows.
  Result<uint64_t> Number(std::string_view key);
  // `otherwise` if there is no such key.
  Result<uint64_t> NumberOr(std::string_view key, uint64_t otherwise);
  Result<Extents> ExtentsOf(std::string_view key);
  Result<std::string> Word(std::string_view key);
  // An array of words; none if there is no such key.
  Result<std::vector<std::string>> Words(std::string_view key);
  // The same, all of them among `known`; but the key must be there.
  Result<std::vector<std::string>> Flags(std::string_view key, std::initializer_list<std::string_view> known);
  // Pairs of a name and a number, as in stripes = ["pv0", 0, "pv1", 5].
  struct Place {
    std::string name;
    Extents first;
  };
  Result<std::vector<Place>> Places(std::string_view key);
  // What is there for people and other programs.
  void Ignore(std::initializer_list<std::string_view> keys);
  // kUnsupported, naming one, if keys are left. `section` is for that.
  Status Finish(std::string_view section) const;

 private:
  struct Item {
    std::string key;
    std::vector<TextValue> values;
    bool taken = false;
  };
  Item* Find(std::string_view key);
  Result<std::vector<TextValue>> Take(std::string_view key);

  std::vector<Item> items_;
};

}  // namespace quarry::lvm::text
