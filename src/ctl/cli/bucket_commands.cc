// bucket create, list, grow, grant, revoke, delete.

#include <memory>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "ctl/bucket_client.h"
#include "ctl/bucket_text.h"
#include "ctl/cli/tables.h"
#include "ctl/cli/volumes.h"
#include "ctl/json_text.h"

namespace quarry::ctl {
namespace {

namespace pb = ::quarry::admin::v1;

using AskBuckets = std::function<Result<std::string>(BucketClient&, int& exit_status)>;

Run AskAboutBuckets(CLI::App& sub, const Common& common, const AskBuckets& ask) {
  return AskQuarryd(sub, common, [ask](AdminClient& admin, int& exit_status) {
    BucketClient client(admin.channel(), &TellWaiting);
    return ask(client, exit_status);
  });
}

Result<pb::Bucket> Find(BucketClient& client, const std::string& name) {
  QUARRY_ASSIGN(const auto list, client.List(CallWithin(kPatience)));
  return client.Find(list, name, CallWithin(kPatience));
}

std::string Answer(const Common& common, bool changed, const std::string& words) {
  return common.json ? JsonLine({{"changed", changed}, {"text", words}}) : words + "\n";
}

Status CheckAccess(const std::string& access) {
  if (access != "rw" && access != "ro" && access != "wo") {
    return Error(Code::kInvalidArgument, fmt::format("--access: must be rw, ro or wo, is '{}'", access));
  }
  return Ok();
}

Result<std::string> GrantNow(BucketClient& client, const Common& common, const std::string& account,
                             const std::vector<pb::Bucket>& buckets, const std::string& access) {
  pb::GrantBucketRequest request;
  request.set_account(account);
  for (const pb::Bucket& bucket : buckets) {
    auto& row = *request.add_buckets();
    row.set_bucket_id(bucket.bucket_id());
    row.set_access(access);
  }
  QUARRY_ASSIGN(const auto granted, client.Grant(request, CallWithin(kChangePatience)));
  return common.json ? GrantJson(granted) : GrantText(granted);
}

Run SetUpCreate(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name, size, account;
    std::vector<std::string> parameters;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name of the new bucket, as S3 clients use it")->required();
  sub.add_option("parameters", wish->parameters,
                 "KEY=VALUE…: those of a volume, such as type=raid1, and ondelete=refuse|erase, "
                 "durability=sync|relaxed, uploadttl");
  sub.add_option("--size", wish->size, "size of its volume, such as 100GiB")->required();
  sub.add_option("--account", wish->account, "account that may read and write it [the bucket's name]");
  sub.footer(
      "Example: quarryctl bucket create photos --size 100GiB type=raid1\nPrints the keys of the account. A "
      "repetition prints the same keys.");
  return AskAboutBuckets(sub, common, [wish, &common](BucketClient& client, int&) -> Result<std::string> {
    QUARRY_TRY(ParseSize(wish->size).Context("--size"));
    QUARRY_ASSIGN(auto parameters, ParseParameters(wish->parameters));
    if (!parameters.emplace("size", wish->size).second) {
      return Error(Code::kInvalidArgument, "size: is said by --size");
    }
    QUARRY_ASSIGN(const auto made, client.Create(wish->name, parameters, CallWithin(kChangePatience)));
    QUARRY_ASSIGN(
        const std::string keys,
        GrantNow(client, common, wish->account.empty() ? wish->name : wish->account, {made.bucket()}, "rw")
            .Context(fmt::format("bucket '{}' is there, but has no account yet", wish->name)));
    return common.json ? keys
                       : fmt::format("{} bucket {}\n{}", made.created() ? "created" : "there is already",
                                     BucketSummary(made.bucket()), keys);
  });
}

Run SetUpList(CLI::App& sub, const Common& common) {
  sub.footer(
      "Example: quarryctl bucket list\nThe exit status is 1 if a bucket does not serve, or a pool "
      "cannot be read.");
  return AskAboutBuckets(sub, common,
                         [&common](BucketClient& client, int& exit_status) -> Result<std::string> {
                           QUARRY_ASSIGN(const auto list, client.List(CallWithin(kPatience)));
                           for (const pb::Bucket& bucket : list.buckets()) {
                             exit_status = bucket.serving() ? exit_status : 1;
                           }
                           QUARRY_ASSIGN(const auto unread, client.UnreadPools(CallWithin(kPatience)));
                           exit_status = unread.empty() ? exit_status : 1;
                           if (common.json) {
                             nlohmann::json all = nlohmann::json::parse(BucketListJson(list));
                             all["unread_pools"] = unread;
                             return JsonLine(all);
                           }
                           std::string text = BucketTable(list);
                           for (const std::string& pool : unread) {
                             text += fmt::format("not read, so buckets may be missing: {}\n", pool);
                           }
                           return text;
                         });
}

Run SetUpGrow(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name, size;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of the bucket")->required();
  sub.add_option("--size", wish->size, "its new size, such as 200GiB; +50GiB adds to the present size")
      ->required();
  sub.footer("Example: quarryctl bucket grow photos --size +50GiB\nThe bucket serves meanwhile.");
  return AskAboutBuckets(sub, common, [wish, &common](BucketClient& client, int&) -> Result<std::string> {
    const bool more = wish->size.starts_with('+');
    QUARRY_ASSIGN(Bytes size, ParseSize(wish->size.substr(more ? 1 : 0)).Context("--size"));
    QUARRY_ASSIGN(const pb::Bucket bucket, Find(client, wish->name));
    const Bytes present{static_cast<uint64_t>(bucket.size_bytes())};
    size = more ? present + size : size;
    if (size < present) {
      return Error(Code::kInvalidArgument,
                   fmt::format("--size: bucket {} has {} already, and Quarry never shrinks "
                               "a bucket",
                               bucket.name(), HumanBytes(present)));
    }
    QUARRY_ASSIGN(const Bytes grown, client.Grow(bucket.bucket_id(), size, CallWithin(kChangePatience)));
    return Answer(common, grown != present,
                  grown == present ? fmt::format("bucket {} has {} already", bucket.name(), HumanBytes(grown))
                                   : fmt::format("bucket {} has grown from {} to {}", bucket.name(),
                                                 HumanBytes(present), HumanBytes(grown)));
  });
}

Run SetUpGrant(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string account, access = "rw";
    std::vector<std::string> names;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("ACCOUNT", wish->account, "name of the account, which is also its access key id")
      ->required();
  sub.add_option("NAME", wish->names, "names or ids of its buckets")->required();
  sub.add_option("--access", wish->access, "rw (read and write), ro (read) or wo (write) [rw]");
  sub.footer(
      "Example: quarryctl bucket grant reader photos --access ro\nPrints the keys of the account. A "
      "repetition prints the same keys.");
  return AskAboutBuckets(sub, common, [wish, &common](BucketClient& client, int&) -> Result<std::string> {
    QUARRY_TRY(CheckAccess(wish->access));
    QUARRY_ASSIGN(const auto list, client.List(CallWithin(kPatience)));
    std::vector<pb::Bucket> buckets;
    for (const std::string& name : wish->names) {
      QUARRY_ASSIGN(const pb::Bucket bucket, client.Find(list, name, CallWithin(kPatience)));
      buckets.push_back(bucket);
    }
    return GrantNow(client, common, wish->account, buckets, wish->access);
  });
}

Run SetUpRevoke(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string account;
    std::vector<std::string> names;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("ACCOUNT", wish->account, "name of the account")->required();
  sub.add_option("NAME", wish->names, "names or ids of the buckets that it loses")->required();
  sub.footer("Example: quarryctl bucket revoke reader photos\nThe gateway refuses its next request.");
  return AskAboutBuckets(sub, common, [wish, &common](BucketClient& client, int&) -> Result<std::string> {
    QUARRY_ASSIGN(const auto list, client.List(CallWithin(kPatience)));
    pb::RevokeBucketRequest request;
    request.set_account_id(wish->account);
    bool had = false;
    for (const std::string& name : wish->names) {
      QUARRY_ASSIGN(const pb::Bucket bucket, client.Find(list, name, CallWithin(kPatience)));
      request.add_bucket_ids(bucket.bucket_id());
      for (const auto& account : bucket.accounts()) {
        had = had || account.account_id() == wish->account;
      }
    }
    QUARRY_TRY(client.Revoke(request, CallWithin(kChangePatience)));
    return Answer(common, had,
                  had ? fmt::format("revoked the access of account {}", wish->account)
                      : fmt::format("account {} has no access already", wish->account));
  });
}

Run SetUpDelete(CLI::App& sub, const Common& common) {
  struct Wish {
    std::string name;
    bool yes = false, dry_run = false, lost = false;
  };
  const auto wish = std::make_shared<Wish>();
  sub.add_option("NAME", wish->name, "name or id of the bucket")->required();
  sub.add_flag("--yes", wish->yes, "do not ask");
  sub.add_flag("--lost", wish->lost,
               "its disk is gone or cannot be read: delete it with its objects, which cannot be looked for");
  AddDryRun(sub, wish->dry_run);
  sub.footer(
      "Example: quarryctl bucket delete photos --yes\nIts bytes are erased, and cannot be brought back. A "
      "bucket with objects is refused unless it was made with ondelete=erase. --lost is for a bucket that "
      "its disks do not give, because they are missing or cannot be read, and refused for any other.");
  return AskAboutBuckets(sub, common, [wish, &common](BucketClient& client, int&) -> Result<std::string> {
    const auto bucket = Find(client, wish->name);
    if (!bucket.has_value() && bucket.error().code() == Code::kNotFound && wish->yes) {
      return Answer(common, false,
                    fmt::format("there is no bucket '{}' any more", wish->name));  // scripts repeat it
    }
    QUARRY_TRY(bucket);
    if (wish->dry_run) {
      return Answer(common, false, fmt::format("would delete bucket {}", BucketSummary(*bucket)));
    }
    if (!wish->yes) {
      QUARRY_TRY(
          Confirm(fmt::format("bucket {} and its objects will be gone for good.", BucketSummary(*bucket)),
                  bucket->name()));
    }
    QUARRY_TRY(client.Delete(bucket->bucket_id(), wish->lost, CallWithin(kChangePatience)));
    return common.json ? BucketJson(*bucket) : fmt::format("deleted bucket {}\n", bucket->name());
  });
}

}  // namespace

std::vector<Command> BucketCommands() {
  return {
      {"create", "make a bucket and an account for it, and print the keys", &SetUpCreate},
      {"list", "every bucket, with its accounts and what it holds", &SetUpList},
      {"grow", "make a bucket larger, while it serves", &SetUpGrow},
      {"grant", "give an account access to buckets, and print its keys", &SetUpGrant},
      {"revoke", "take an account's access to buckets away", &SetUpRevoke},
      {"delete", "delete a bucket, and erase its bytes", &SetUpDelete},
  };
}

}  // namespace quarry::ctl
