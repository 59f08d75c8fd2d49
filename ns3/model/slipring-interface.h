/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_INTERFACE_H
#define SLIPRING_INTERFACE_H

#include <string>

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \param portName name of a port
 * \param kind kind of the port
 * \return the interface of the host that the port uses; empty if it uses none
 */
std::string SlipringInterfaceOf(const std::string& portName, const std::string& kind);

/**
 * \ingroup slipring-net-device
 * \param interface name of an interface
 * \return whether it exists, is up, and has a carrier
 */
bool SlipringInterfaceIsUp(const std::string& interface);

/**
 * \ingroup slipring-net-device
 * \return a descriptor that becomes readable when an interface changes; -1 if there is none
 */
int SlipringOpenLinkMonitor();

} // namespace ns3

#endif /* SLIPRING_INTERFACE_H */
