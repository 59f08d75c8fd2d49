/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_NETMAP_COMPAT_H
#define SLIPRING_NETMAP_COMPAT_H

/**
 * \file
 * \ingroup slipring-net-device
 * The names of ns-3's netmap device, for programs that were written for it. Where ns-3 has that
 * device, its own headers define them. The TypeId is ns3::SlipringNetDevice in any case: ns-3 ends a
 * program that registers a TypeId twice.
 */

#include "ns3/slipring-net-device-helper.h"

#if __has_include("ns3/netmap-net-device.h")
#include "ns3/netmap-net-device-helper.h"
#include "ns3/netmap-net-device.h"
#else
namespace ns3
{
typedef SlipringNetDevice NetmapNetDevice;
typedef SlipringNetDeviceHelper NetmapNetDeviceHelper;
} // namespace ns3
#endif

#endif /* SLIPRING_NETMAP_COMPAT_H */
