/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_PRIVATE_ACCESS_H
#define SLIPRING_PRIVATE_ACCESS_H

#include "ns3/fd-net-device.h"
#include "ns3/packet.h"

namespace ns3
{

/**
 * \file
 * \ingroup slipring-net-device
 * FdNetDevice's trace sources and the function that fires them are private, and a subclass cannot
 * register the names of the trace sources again. These functions reach them: an explicit
 * instantiation may name private members (C++17 [temp.explicit] paragraph 13).
 */

/**
 * Passes up the oldest frame of m_pendingQueue, and fires the traces of reception.
 * \param device the device
 */
void SlipringForwardUp(FdNetDevice& device);

/**
 * Fires the trace source MacTxDrop.
 * \param device the device
 * \param packet the dropped packet
 */
void SlipringFireMacTxDrop(FdNetDevice& device, Ptr<const Packet> packet);

} // namespace ns3

#endif /* SLIPRING_PRIVATE_ACCESS_H */
