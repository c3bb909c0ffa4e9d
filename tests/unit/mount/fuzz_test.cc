// Runs the fuzzer's entry point over a corpus and over mutations of it. A fuzzer does this for hours; here it
// takes a moment, in every build.
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

const std::vector<std::string>& Corpus() {
  static const std::vector<std::string> corpus = {
      "m21 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "25 21 0:6 / /dev rw,nosuid - devtmpfs devtmpfs rw\n"
      "90 21 253:3 / /a\\040b rw,nosuid,nodev shared:7 master:3 propagate_from:2 - xfs /dev/dm-3 rw,attr2\n"
      "91 90 253:3 /sub /a\\040b ro - xfs /dev/dm-3 rw\n"
      "92 91 0:45 / /a\\040b/c rw - btrfs /dev/dm-4 rw,context=\"u:r:t:s0:c1,c2\"\n",
      "m1 1 0:2 / / rw - rootfs rootfs rw\n22 1 8:1 / / rw - ext4  rw",
      "m2 3 8:2 / /a rw - ext4 x rw\n3 2 8:3 / /a rw - ext4 y rw\n",
      "fnoatime\nnodev\nsuid\nlogbufs=8\ndiscard\nro\nrw",
      "fcontext=\"system_u:object_r:container_file_t:s0:c1,c2\"\ncontext=u:r:t:s0:c1,c2",
      "fbind\nremount\nX-mount.mkdir\nloop=/dev/loop0",
      "o-b 4096 -m 0 -E lazy_itable_init=0,stride=4 -O ^has_journal -L name",
      "o-d su=64k,sw=3 -l size=64m -i size=512 -m crc=1",
      "o--csum xxhash -m single -d single --label=x -K",
      "p/var/lib/kubelet/pods/a b/volumes//x/",
      "l" + std::string(512, '\0') + "LABELONE" + std::string(1, '\1') + std::string(11, '\0') +
          std::string(1, ' ') + std::string(3, '\0') + "LVM2 001" + "abcdefGHIJklmnOPQRstuvWXYZ012345" +
          std::string(448, '\0'),
      "t3 12/1024 5/800 77 out_of_data_space discard_passdown queue_if_no_space needs_check 256",
      "t8192 20479",
      "s" + std::string(0x18, '\0') + "\2" + std::string(0x1F, '\0') + "\x53\xEF" + std::string(1024, '\1'),
  };
  return corpus;
}

void Feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Makes one change: a byte, a piece removed, doubled, or taken from another input of the corpus.
std::string Mutate(std::string input, std::mt19937& random) {
  static const std::string spice = "\\\"=,- \n\t/:0479\x7F\xFF";
  const auto at = [&](const std::string& text) { return random() % (text.size() + 1); };
  switch (random() % 5) {
    case 0:
      input.insert(at(input), 1, spice[random() % spice.size()]);
      break;
    case 1:
      input.erase(at(input), random() % 8);
      break;
    case 2:
      input.insert(at(input), input.substr(at(input), random() % 32));
      break;
    case 3: {
      const std::string& other = Corpus()[random() % Corpus().size()];
      input.insert(at(input), other.substr(at(other), random() % 64));
      break;
    }
    default:
      if (!input.empty()) {
        input[random() % input.size()] = static_cast<char>(random());
      }
  }
  return input;
}

TEST(MountFuzz, TheCorpusAndItsPrefixesDoNoHarm) {
  Feed("");
  for (const std::string& input : Corpus()) {
    for (size_t length = 0; length <= input.size(); ++length) {
      Feed(input.substr(0, length));
    }
  }
}

TEST(MountFuzz, MutationsOfTheCorpusDoNoHarm) {
  std::mt19937 random(20240229);
  for (int round = 0; round < 40000; ++round) {
    std::string input = Corpus()[random() % Corpus().size()];
    const char kind = input[0];
    for (uint32_t changes = 1 + random() % 8; changes > 0; --changes) {
      input = Mutate(std::move(input), random);
    }
    Feed(random() % 4 == 0 ? input : kind + input.substr(std::min<size_t>(1, input.size())));
  }
}

}  // namespace
