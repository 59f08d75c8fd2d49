# Defines the target slipring::core, if libslipring is found. SPDX-License-Identifier: GPL-2.0-only

if(SLIPRING_LIBRARY AND EXISTS "${SLIPRING_LIBRARY}")
  add_library(slipring::core UNKNOWN IMPORTED GLOBAL)
  # netmap's header has flexible array members, for which ns-3's flags -Wpedantic -Werror have no
  # exception but that of system headers.
  set_target_properties(slipring::core PROPERTIES
    IMPORTED_LOCATION "${SLIPRING_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SLIPRING_INCLUDE}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${SLIPRING_INCLUDE}"
    INTERFACE_LINK_LIBRARIES "gcc_s;pthread;m;dl")
else()
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(slipring QUIET IMPORTED_TARGET GLOBAL slipring)
    if(slipring_FOUND)
      add_library(slipring::core ALIAS PkgConfig::slipring)
    endif()
  endif()
endif()
