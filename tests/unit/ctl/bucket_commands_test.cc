// `quarryctl bucket …` as administrators and scripts see it: output and exit status of the program.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cosi/memory_buckets.h"
#include "tests/unit/csi/service_harness.h"

namespace quarry::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;

class BucketCommandsTest : public testing::Test {
 protected:
  struct Said {
    int status = -1;
    std::string text;  // of both outputs
  };

  // There is no terminal.
  Said Quarryctl(const std::string& words) {
    const std::string line = std::string(QUARRYCTL) + " bucket " + words + " --endpoint unix://" +
                             harness.admin_socket + " 2>&1 </dev/null";
    Said said;
    FILE* const pipe = popen(line.c_str(), "r");
    if (pipe == nullptr) {
      return said;
    }
    std::array<char, 4096> part{};
    while (fgets(part.data(), part.size(), pipe) != nullptr) {
      said.text += part.data();
    }
    said.status = WEXITSTATUS(pclose(pipe));
    return said;
  }

  cosi_check::MemoryBuckets buckets;
  csi::ServiceHarness harness{{.buckets = &buckets}};
};

TEST_F(BucketCommandsTest, CreatePrintsEndpointAndKeysAndTheSameOnesAgain) {
  const Said first = Quarryctl("create photos --size 1GiB type=raid1");
  EXPECT_EQ(first.status, 0) << first.text;
  EXPECT_THAT(first.text, HasSubstr("created bucket photos (1 GiB raid1)"));
  EXPECT_THAT(first.text, HasSubstr("AWS_ENDPOINT_URL=http://127.0.0.1:7070\n"));
  EXPECT_THAT(first.text, HasSubstr("AWS_ACCESS_KEY_ID=photos\n"));
  const Said again = Quarryctl("create photos --size 1GiB type=raid1");
  EXPECT_EQ(again.status, 0);
  EXPECT_THAT(again.text, HasSubstr("there is already bucket photos"));
  EXPECT_EQ(first.text.substr(first.text.find("AWS_")), again.text.substr(again.text.find("AWS_")));
  const Said other = Quarryctl("create photos --size 2GiB type=raid1");
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.text, HasSubstr("has other parameters"));
}

TEST_F(BucketCommandsTest, WrongUseHasExitStatusTwoAndOneLine) {
  for (const char* words :
       {"create photos --size much", "create photos --size 1GiB colour=red",
        "create photos --size 1GiB size=2GiB", "grow none --size 1", "grant a", "delete"}) {
    const Said said = Quarryctl(words);
    EXPECT_EQ(said.status, std::string(words).starts_with("grow") ? 1 : 2) << words << ": " << said.text;
  }
  EXPECT_THAT(Quarryctl("grow none --size 1").text, HasSubstr("there is no bucket 'none'"));
}

TEST_F(BucketCommandsTest, AnAccountIsGrantedListedAndRevoked) {
  ASSERT_EQ(Quarryctl("create photos --size 1GiB --account app").status, 0);
  ASSERT_EQ(Quarryctl("create music --size 1GiB --account app2").status, 0);
  const Said granted = Quarryctl("grant reader photos music --access ro --json");
  ASSERT_EQ(granted.status, 0) << granted.text;
  const auto keys = nlohmann::json::parse(granted.text);
  EXPECT_EQ(keys["buckets"].size(), 2U);
  EXPECT_NE(keys["secret_access_key"], "");
  EXPECT_EQ(Quarryctl("grant reader photos --access all").status, 2);

  const Said list = Quarryctl("list");
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.text, HasSubstr("app (rw), reader (ro)"));
  EXPECT_THAT(list.text, Not(HasSubstr(std::string(keys["secret_access_key"]))));
  EXPECT_THAT(Quarryctl("revoke reader photos music").text,
              HasSubstr("revoked the access of account reader"));
  EXPECT_THAT(Quarryctl("revoke reader photos").text, HasSubstr("has no access already"));
  EXPECT_THAT(Quarryctl("list").text, Not(HasSubstr("reader")));
}

TEST_F(BucketCommandsTest, ABucketGrowsToASizeOrByOneAndNeverShrinks) {
  ASSERT_EQ(Quarryctl("create photos --size 1GiB").status, 0);
  EXPECT_THAT(Quarryctl("grow photos --size +1GiB").text, HasSubstr("has grown from 1 GiB to 2 GiB"));
  EXPECT_THAT(Quarryctl("grow photos --size 2GiB").text, HasSubstr("has 2 GiB already"));
  const Said smaller = Quarryctl("grow photos --size 1GiB");
  EXPECT_EQ(smaller.status, 2);
  EXPECT_THAT(smaller.text, HasSubstr("never shrinks"));
}

TEST_F(BucketCommandsTest, DeleteWantsYesAndRefusesObjects) {
  ASSERT_EQ(Quarryctl("create photos --size 1GiB").status, 0);
  const Said asked = Quarryctl("delete photos");
  EXPECT_EQ(asked.status, 2);
  EXPECT_THAT(asked.text, HasSubstr("--yes"));
  EXPECT_THAT(Quarryctl("delete photos --dry-run").text, HasSubstr("would delete bucket photos"));
  const std::string id = buckets.List(Call{})->at(0).id;
  buckets.PutObjects(id, 2);
  const Said full = Quarryctl("delete photos --yes");
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.text, HasSubstr("has 2 objects"));
  buckets.PutObjects(id, 0);
  EXPECT_EQ(Quarryctl("delete photos --yes").text, "deleted bucket photos\n");
  const Said gone = Quarryctl("delete photos --yes");
  EXPECT_EQ(gone.status, 0);
  EXPECT_THAT(gone.text, HasSubstr("any more"));
}

TEST_F(BucketCommandsTest, ABucketWhoseDiskIsGoneNeedsItsOwnOption) {
  ASSERT_EQ(Quarryctl("create photos --size 1GiB").status, 0);
  const Said here = Quarryctl("delete photos --lost --yes");
  EXPECT_EQ(here.status, 1);
  EXPECT_THAT(here.text, HasSubstr("lacks no disk"));
  buckets.LoseDisk(buckets.List(Call{})->at(0).id);
  EXPECT_EQ(Quarryctl("delete photos --yes").status, 1);
  EXPECT_EQ(Quarryctl("delete photos --lost --yes").text, "deleted bucket photos\n");
}

}  // namespace
}  // namespace quarry::ctl
