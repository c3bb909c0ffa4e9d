// Disks as files, built from what lvm2 wrote (tests/fixtures/lvm/headers).
#pragma once

#include <filesystem>
#include <string>

namespace quarry::lvm {

// Uses a folder on the file system of the build, which supports O_DIRECT (a tmpfs may not). The folder lives
// as long as the object.
class DiskImages {
 public:
  DiskImages();
  ~DiskImages();
  DiskImages(const DiskImages&) = delete;
  DiskImages& operator=(const DiskImages&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  static std::string Fixture(const std::string& state, const std::string& file);
  // Writes disk 1 or 2 of a fixture's state into a file: label, header, and the committed text at its place.
  void Put(const std::filesystem::path& file, const std::string& state, int disk) const;
  // Overwrites bytes of a file, which is created if absent.
  static void Write(const std::filesystem::path& file, const std::string& bytes, uint64_t at = 0);

 private:
  std::filesystem::path folder_;
};

}  // namespace quarry::lvm
