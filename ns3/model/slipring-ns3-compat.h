/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_NS3_COMPAT_H
#define SLIPRING_NS3_COMPAT_H

/**
 * \file
 * \ingroup slipring-net-device
 * The differences between the versions of ns-3 that this module builds with. CMakeLists.txt
 * defines SLIPRING_NS3_MINOR: 37 for ns-3.37. Only source files include this header.
 */

#ifndef SLIPRING_NS3_MINOR
#error "SLIPRING_NS3_MINOR is not defined: build with the module's CMakeLists.txt"
#endif

// ns-3.41 made EnumValue a template over the type of the enumeration.
#if SLIPRING_NS3_MINOR >= 41
#define SLIPRING_ENUM_ACCESSOR(type, member) MakeEnumAccessor<type>(member)
#define SLIPRING_ENUM_VALUE(type, value) EnumValue<type>(value)
#else
#define SLIPRING_ENUM_ACCESSOR(type, member) MakeEnumAccessor(member)
#define SLIPRING_ENUM_VALUE(type, value) EnumValue(value)
#endif

// ns-3.42 made the enumerations of the tests scoped.
#if SLIPRING_NS3_MINOR >= 42
#define SLIPRING_TEST_QUICK TestCase::Duration::QUICK
#define SLIPRING_SUITE_UNIT TestSuite::Type::UNIT
#define SLIPRING_SUITE_SYSTEM TestSuite::Type::SYSTEM
#else
#define SLIPRING_TEST_QUICK TestCase::QUICK
#define SLIPRING_SUITE_UNIT TestSuite::UNIT
#define SLIPRING_SUITE_SYSTEM TestSuite::SYSTEM
#endif

#endif /* SLIPRING_NS3_COMPAT_H */
