#include "ctl/redact.h"

#include <gtest/gtest.h>

namespace quarry::ctl {
namespace {

TEST(Redact, ValuesOfSecretKeysAreRemoved) {
  EXPECT_EQ(Redact("statsd-password = \"a b\\\" c\"\nx=1\n"), "statsd-password = <removed>\nx=1\n");
  EXPECT_EQ(Redact("a PASSWORD=hunter2 b"), "a PASSWORD=<removed> b");
  EXPECT_EQ(Redact("user=x,secret=abc,ro"), "user=x,secret=<removed>,ro");
  EXPECT_EQ(Redact("{\"api_key\":\"abc\",\"b\":1}"), "{\"api_key\":<removed>,\"b\":1}");
  EXPECT_EQ(Redact("Authorization: Bearer abc.def"), "Authorization: <removed>");
  EXPECT_EQ(Redact("token=a token=b"), "token=<removed> token=<removed>");
}

TEST(Redact, UsersOfUrlsAreRemoved) {
  EXPECT_EQ(Redact("see https://me:pw@host/x and http://host/y@z"),
            "see https://<removed>@host/x and http://host/y@z");
}

TEST(Redact, KeysOfIntegrityDevicesAreRemoved) {
  EXPECT_EQ(
      Redact("0 8 integrity 8:0 0 32 J 2 internal_hash:hmac(sha256):00ff journal_mac:hmac(sha256):aa x"),
      "0 8 integrity 8:0 0 32 J 2 internal_hash:hmac(sha256):<removed> journal_mac:hmac(sha256):<removed> x");
  EXPECT_EQ(Redact("internal_hash:crc32c journal_crypt:ctr(aes):0123"),
            "internal_hash:crc32c journal_crypt:ctr(aes):<removed>");
}

TEST(Redact, UsersOfIscsiAreRemoved) {
  EXPECT_EQ(Redact("node.session.auth.password = hunter2"), "node.session.auth.password = <removed>");
  EXPECT_EQ(Redact("netroot=iscsi:me:pw:inuser:inpw@10.0.0.1::::iqn.x ro"),
            "netroot=iscsi:<removed>@10.0.0.1::::iqn.x ro");
  EXPECT_EQ(Redact("netroot=iscsi:10.0.0.1::::iqn.x a@b"), "netroot=iscsi:10.0.0.1::::iqn.x a@b");
}

TEST(Redact, KeysInPemAreRemoved) {
  EXPECT_EQ(Redact("a\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nb\n"),
            "a\n<removed>\nb\n");
  EXPECT_EQ(Redact("-----BEGIN X-----\nMIIE"), "<removed>\n");
}

TEST(Redact, MkfsOptionsAreRemoved) {
  EXPECT_EQ(
      Redact(R"(tags = ["quarry.profile=type=linear+20mkfsoptions+3D-E+20hash_seed+3Dx", "quarry.ready"])"),
      R"(tags = ["quarry.profile=type=linear+20mkfsoptions+3D<removed>", "quarry.ready"])");
  EXPECT_EQ(Redact("\"mkfsoptions=-m 0\","), "\"mkfsoptions=<removed>\",");
}

TEST(Redact, OtherTextDoesNotChange) {
  for (const char* text : {"", "\n", "log-level = \"info\"\n", "no newline",
                           "quarry.id=main.0f4e2874.qaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
                           "12:34:56 secrets are not logged\n", "a = b : c\n\n", "mkfsoptions", "password"}) {
    EXPECT_EQ(Redact(text), text);
  }
}

}  // namespace
}  // namespace quarry::ctl
