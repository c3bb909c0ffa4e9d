// The assignments of one section of a metadata text. Each must be understood. For text_snapshot.cc.
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

// kUnsupported: only LVM can interpret `what`.
Error AskLvm(std::string what);

// Every read removes its key. A key that remains at the end was not understood.
class Fields {
 public:
  // kUnsupported if the key occurred before.
  Status Add(std::string_view key, std::span<const TextValue> values);

  // A plain number must be below 2^40, a number of extents below 2^29. Computing with such numbers does not
  // overflow.
  Result<uint64_t> Number(std::string_view key);
  // `otherwise` if the key is absent.
  Result<uint64_t> NumberOr(std::string_view key, uint64_t otherwise);
  Result<Extents> ExtentsOf(std::string_view key);
  // A number of sectors of 512 bytes, in bytes.
  Result<Bytes> Sectors(std::string_view key);
  Result<std::string> Word(std::string_view key);
  // An array of words; empty if the key is absent.
  Result<std::vector<std::string>> Words(std::string_view key);
  // As Words, but the key must be present, and each word must be in `known`.
  Result<std::vector<std::string>> Flags(std::string_view key, std::initializer_list<std::string_view> known);
  // Pairs of a name and a number, as in stripes = ["pv0", 0, "pv1", 5].
  struct Place {
    std::string name;
    Extents first;
  };
  Result<std::vector<Place>> Places(std::string_view key);
  bool Has(std::string_view key) const;
  // Whether the key is present and has this one word. Does not remove it.
  bool WordIs(std::string_view key, std::string_view word) const;
  // Drops keys that a snapshot does not need.
  void Ignore(std::initializer_list<std::string_view> keys);
  // kUnsupported if a key remains; the message names it and `section`.
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
