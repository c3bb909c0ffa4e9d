# The Debian package quarry-s3-gateway, by scripts/package --gateway: a package of its own, because versitygw is larger than
# all of Quarry, and most nodes serve no buckets. `cmake --install --component gateway` installs the same files.
install(TARGETS quarry-gateway RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT gateway EXCLUDE_FROM_ALL)
install(FILES deploy/systemd/quarry-gateway.service
  DESTINATION lib/systemd/system COMPONENT gateway EXCLUDE_FROM_ALL)
install(FILES deploy/debian/gateway/copyright
  DESTINATION share/doc/quarry-s3-gateway COMPONENT gateway EXCLUDE_FROM_ALL)
# versitygw, manual page, changelogs, licences and the list of modules, by scripts/lib/package_files.py.
install(DIRECTORY ${CMAKE_BINARY_DIR}/package/gateway-tree/
  DESTINATION . COMPONENT gateway EXCLUDE_FROM_ALL OPTIONAL USE_SOURCE_PERMISSIONS)

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/CPackGatewayConfig.cmake @ONLY CONTENT [=[
include("@CMAKE_BINARY_DIR@/CPackConfig.cmake")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL gateway)
set(CPACK_DEBIAN_GATEWAY_PACKAGE_NAME quarry-s3-gateway)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "S3 gateway of buckets on Quarry's volumes")
set(CPACK_COMPONENT_GATEWAY_DESCRIPTION "The daemon quarryd makes buckets, each on a volume of its own. This package
has versitygw, which serves them over S3, and quarry-gateway, which runs it
as a user without rights and as quarryd directs.")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "quarryd")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "")
set(CPACK_DEBIAN_GATEWAY_PACKAGE_CONTROL_EXTRA)
foreach(file postinst prerm postrm)
  list(APPEND CPACK_DEBIAN_GATEWAY_PACKAGE_CONTROL_EXTRA "@CMAKE_SOURCE_DIR@/deploy/debian/gateway/${file}")
endforeach()
]=])
