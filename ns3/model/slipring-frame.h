/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_FRAME_H
#define SLIPRING_FRAME_H

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * Completes the checksum of a TCP or UDP frame whose sender left that to its NIC: the checksum
 * field then holds only the sum of the pseudo header (RFC 9293 section 3.1, RFC 768).
 *
 * A frame whose checksum is complete stays as it is. IPv4 and IPv6 without extension headers, up
 * to two VLAN tags.
 *
 * \param frame the frame, from its Ethernet header
 * \param length its length in bytes
 * \return whether the checksum was completed
 */
bool SlipringCompleteChecksum(uint8_t* frame, std::size_t length);

/**
 * \ingroup slipring-net-device
 * Splits a TCP frame that is longer than the MTU, as a NIC with segmentation offload does.
 *
 * \param frame the frame, from its Ethernet header
 * \param length its length in bytes
 * \param mtu longest IP packet of a segment, in bytes
 * \return the segments, in order; none if the frame is not a TCP frame that can be split
 */
std::vector<std::vector<uint8_t>> SlipringSegmentTcp(const uint8_t* frame,
                                                     std::size_t length,
                                                     std::size_t mtu);

} // namespace ns3

#endif /* SLIPRING_FRAME_H */
