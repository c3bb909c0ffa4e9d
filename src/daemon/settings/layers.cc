#include "daemon/settings/layers.h"

#include <algorithm>

#include <fmt/format.h>

namespace quarry::daemon {
namespace {

std::string TextOf(const RuleDraft& rule) {
  std::string text;
  for (const auto& [key, value] : rule.conditions) {
    text += fmt::format("{}={},", key, value);
  }
  return text;
}

std::string TextOf(const PoolDraft& pool) {
  std::string text = fmt::format("{}={}", pool.name, pool.group);
  for (const auto& [key, value] : pool.extras) {
    text += fmt::format(" {}={}", key, value);
  }
  for (const RuleDraft& rule : pool.devices) {
    text += fmt::format(" device({})", TextOf(rule));
  }
  for (const RuleDraft& rule : pool.excludes) {
    text += fmt::format(" exclude({})", TextOf(rule));
  }
  return text;
}

const std::vector<PoolDraft>* FindPools(const Layers& layers) {
  const auto layer = std::ranges::find_if(layers, [](const Layer& one) { return one.pools.has_value(); });
  return layer == layers.end() ? nullptr : &*layer->pools;
}

}  // namespace

const Given* FindGiven(const Layers& layers, const std::string& setting) {
  for (const Layer& layer : layers) {
    if (const auto given = layer.settings.find(setting); given != layer.settings.end()) {
      return &given->second;
    }
  }
  return nullptr;
}

std::vector<Error> ApplyLayers(const Layers& layers, Options& options) {
  std::vector<Error> problems;
  const auto check = [&problems](Status status) {
    if (!status.has_value()) {
      problems.push_back(std::move(status.error()));
    }
  };
  for (const Setting& setting : Settings()) {
    if (const Given* given = FindGiven(layers, setting.name); given != nullptr) {
      check(setting.apply(options, given->text).Context(given->origin));
    }
  }
  if (const auto* drafts = FindPools(layers); drafts != nullptr) {
    for (const PoolDraft& draft : *drafts) {
      auto pool = ParsePool(draft);
      if (pool.has_value()) {
        options.pools.push_back(std::move(*pool));
      } else {
        problems.push_back(std::move(pool.error()));
      }
    }
  }
  check(CheckPools(options.pools));
  return problems;
}

std::map<std::string, std::string> GivenTexts(const Layers& layers) {
  std::map<std::string, std::string> texts;
  for (const Setting& setting : Settings()) {
    if (const Given* given = FindGiven(layers, setting.name); given != nullptr) {
      texts[setting.name] = given->text;
    }
  }
  if (const auto* pools = FindPools(layers); pools != nullptr) {
    for (const PoolDraft& pool : *pools) {
      texts["pool"] += TextOf(pool) + "; ";
    }
  }
  return texts;
}

}  // namespace quarry::daemon
