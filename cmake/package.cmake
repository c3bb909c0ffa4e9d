# What `cmake --install` installs, and the Debian package that scripts/package makes of the same files with CPack.
include(GNUInstallDirs)

# The release of Debian that packages of this build are for, which is this machine's; empty on any other.
set(QUARRY_PACKAGE_SUITE "")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release codename REGEX "^VERSION_CODENAME=(bookworm|trixie)$")
  string(REPLACE "VERSION_CODENAME=" "" QUARRY_PACKAGE_SUITE "${codename}")
endif()

install(TARGETS quarryd quarryctl RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# quarryd looks for it there (docs/configuration.md, --lvm).
install(TARGETS quarry-lvm RUNTIME DESTINATION libexec/quarry)
install(FILES deploy/systemd/quarryd.service deploy/systemd/quarry-volume@.service DESTINATION lib/systemd/system)
install(PROGRAMS deploy/hooks/mail deploy/hooks/webhook DESTINATION share/doc/quarryd/examples)
install(FILES deploy/hooks/on-change.conf deploy/prometheus/quarry.rules.yml DESTINATION share/doc/quarryd/examples)
install(FILES deploy/udev/59-quarry.rules DESTINATION lib/udev/rules.d)
install(FILES deploy/bash/quarryctl DESTINATION share/bash-completion/completions)
install(FILES deploy/debian/quarry.toml DESTINATION /etc/quarry)
install(FILES deploy/debian/quarryd.default DESTINATION /etc/default RENAME quarryd)
install(FILES deploy/debian/copyright DESTINATION share/doc/quarryd)
# Manual pages, changelogs and the list of libraries, by scripts/lib/package_files.py.
install(DIRECTORY ${CMAKE_BINARY_DIR}/package/tree/ DESTINATION . OPTIONAL)
include(${CMAKE_CURRENT_LIST_DIR}/gateway_package.cmake)
# The package has three programs. Installing need not build the tests.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quarryd)
set(CPACK_PACKAGE_CONTACT "The Quarry developers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "node-local volumes from LVM, through CSI")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Quarry makes volumes from the disks of one node, for callers of the Container
Storage Interface: Kubernetes, Nomad, Mesos and others. Each volume is a
logical volume in an LVM volume group, used as a raw block device or a mounted
file system, linear, striped or RAID. A deleted volume's bytes are erased.
.
This package has the daemon quarryd and the administrator's tool quarryctl.
The service is not enabled until a pool is configured.")
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# LVM is what quarryd works with, ext4 its default file system; LVM loads the kernel's RAID by modprobe.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "lvm2, e2fsprogs, kmod")
# LVM checks a thin pool before it starts it, and quarryctl store repair mends one, if the tools are there.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "thin-provisioning-tools, xfsprogs")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "btrfs-progs, quarry-s3-gateway, smartmontools")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
foreach(file conffiles postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/debian/${file})
endforeach()
include(CPack)
