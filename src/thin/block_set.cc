#include "thin/block_set.h"

#include <bit>

namespace quarry::thin {

void BlockSet::Insert(uint64_t block) {
  const uint64_t number = block / kPageBits, bit = block % kPageBits;
  if (last_ == nullptr || number != last_number_) {
    last_ = &pages_.try_emplace(number).first->second;
    last_number_ = number;
  }
  uint64_t& word = (*last_)[bit / kWordBits];
  const uint64_t mask = uint64_t{1} << (bit % kWordBits);
  size_ += (word & mask) == 0 ? 1 : 0;
  word |= mask;
}

void BlockSet::Erase(uint64_t block) {
  const uint64_t number = block / kPageBits, bit = block % kPageBits;
  if (number != last_number_) {
    const auto page = pages_.find(number);
    last_ = page == pages_.end() ? nullptr : &page->second;
    last_number_ = number;
  }
  if (last_ == nullptr) {
    return;
  }
  uint64_t& word = (*last_)[bit / kWordBits];
  const uint64_t mask = uint64_t{1} << (bit % kWordBits);
  size_ -= (word & mask) != 0 ? 1 : 0;
  word &= ~mask;
}

bool BlockSet::Contains(uint64_t block) const {
  const auto page = pages_.find(block / kPageBits);
  const uint64_t bit = block % kPageBits;
  return page != pages_.end() && ((page->second[bit / kWordBits] >> (bit % kWordBits)) & 1) != 0;
}

uint64_t BlockSet::Find(uint64_t from, bool in) const {
  const uint64_t invert = in ? 0 : ~uint64_t{0};
  for (auto page = pages_.lower_bound(from / kPageBits); page != pages_.end(); ++page) {
    const uint64_t begin = page->first * kPageBits;
    if (!in && from < begin) {
      return from;  // between two pages
    }
    from = from < begin ? begin : from;
    for (uint64_t bit = from - begin; bit < kPageBits; bit = (bit / kWordBits + 1) * kWordBits) {
      const uint64_t word = (page->second[bit / kWordBits] ^ invert) >> (bit % kWordBits);
      if (word != 0) {
        return begin + bit + static_cast<uint64_t>(std::countr_zero(word));
      }
    }
    from = begin + kPageBits;
  }
  return in ? UINT64_MAX : from;
}

std::optional<DataRun> BlockSet::NextRun(uint64_t from) const {
  const uint64_t begin = Find(from, true);
  if (begin == UINT64_MAX) {
    return std::nullopt;
  }
  return DataRun{begin, Find(begin, false) - begin};
}

}  // namespace quarry::thin
