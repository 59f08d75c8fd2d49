/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

// Runs the module's test suites against an installed ns-3: --list, --suite=NAME, --verbose.

#include "ns3/test.h"

int
main(int argc, char* argv[])
{
    return ns3::TestRunner::Run(argc, argv);
}
