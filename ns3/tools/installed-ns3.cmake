# Finds an installed ns-3: sets slipring_ns3, its libraries, slipring_ns3_includes and slipring_ns3_version.
# SPDX-License-Identifier: GPL-2.0-only
#
# SLIPRING_NS3=DIRECTORY is a prefix with include/ns3 and lib or lib64, such as the directory ns3 of the Python package
# ns3. The libraries are found by their names: the CMake files of the Python package name libraries of the machine that
# built it, and take no version but their own.

set(SLIPRING_NS3 "" CACHE PATH "prefix of an installed ns-3; empty: ask pkg-config")
set(slipring_modules core network internet traffic-control applications internet-apps fd-net-device
    point-to-point stats bridge)

# Ends with the prefix for SLIPRING_NS3, if ns3_DIR names the CMake files of an ns-3.
function(slipring_refuse_ns3_dir)
  set(prefix "${ns3_DIR}")
  while(NOT EXISTS "${prefix}/include/ns3/core-module.h")
    get_filename_component(parent "${prefix}" DIRECTORY)
    if(parent STREQUAL prefix OR parent STREQUAL "")
      message(FATAL_ERROR "ns3_DIR is not read, and no directory above ${ns3_DIR} has include/ns3/core-module.h: "
                          "install ns-3 there, or set -DSLIPRING_NS3=PREFIX to a prefix that has it")
    endif()
    set(prefix "${parent}")
  endwhile()
  message(FATAL_ERROR "ns3_DIR is not read: set -DSLIPRING_NS3=${prefix}")
endfunction()

macro(slipring_ns3_of_prefix)
  file(GLOB_RECURSE slipring_core_libraries ${SLIPRING_NS3}/lib/libns3*-core*.so ${SLIPRING_NS3}/lib64/libns3*-core*.so)
  if(NOT slipring_core_libraries)
    message(FATAL_ERROR "${SLIPRING_NS3} has no libns3*-core*.so in lib or lib64: name the prefix of an installed ns-3")
  endif()
  list(GET slipring_core_libraries 0 slipring_core_library)
  foreach(module ${slipring_modules})
    string(REGEX REPLACE "-core([^/]*)$" "-${module}\\1" library "${slipring_core_library}")
    if(EXISTS "${library}")
      list(APPEND slipring_ns3 "${library}")
    else()
      list(APPEND slipring_missing "${module}")
    endif()
  endforeach()
  if(slipring_missing)
    message(FATAL_ERROR "${SLIPRING_NS3} lacks modules of ns-3: ${slipring_missing}. Configure that ns-3 with "
                        "--enable-modules=\"${slipring_modules}\", build and install it again")
  endif()
  set(slipring_ns3_includes "${SLIPRING_NS3}/include")
  get_filename_component(slipring_ns3_library_dir "${slipring_core_library}" DIRECTORY)
  set(slipring_ns3_version_file "${slipring_ns3_library_dir}/cmake/ns3/ns3ConfigVersion.cmake")
  if(NOT EXISTS "${slipring_ns3_version_file}")
    message(FATAL_ERROR "${slipring_ns3_version_file}, which has the version of ns-3, is missing: run ./ns3 install in "
                        "the tree of that ns-3, or set SLIPRING_NS3 to a prefix that was installed whole")
  endif()
  include("${slipring_ns3_version_file}")
  set(slipring_ns3_version "${PACKAGE_VERSION}")
endmacro()

macro(slipring_ns3_of_pkg_config)
  find_package(PkgConfig QUIET)
  foreach(module ${slipring_modules})
    list(APPEND slipring_packages ns3-${module})
  endforeach()
  if(PkgConfig_FOUND)
    pkg_check_modules(ns3pc QUIET ${slipring_packages})
  endif()
  if(NOT ns3pc_FOUND)
    message(FATAL_ERROR "ns-3 is not installed: apt install pkg-config libns3-dev libgsl-dev libsqlite3-dev, or set SLIPRING_NS3")
  endif()
  set(slipring_ns3_version "${ns3pc_ns3-core_VERSION}")
  set(slipring_ns3 ${ns3pc_LINK_LIBRARIES})
  pkg_get_variable(slipring_ns3_includes ns3-core includedir)
  string(REPLACE "\"" "" slipring_ns3_includes "${slipring_ns3_includes}")
endmacro()

if(SLIPRING_NS3)
  slipring_ns3_of_prefix()
elseif(ns3_DIR)
  slipring_refuse_ns3_dir()
else()
  slipring_ns3_of_pkg_config()
endif()
