/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-stats.h"

namespace ns3
{

namespace
{

/// A counter and its name
struct Field
{
    const char* name;                      //!< name in the output
    uint64_t SlipringQueueStats::* member; //!< the counter
};

/// All counters but the drops
constexpr Field FIELDS[] = {
    {"tx_accepted", &SlipringQueueStats::txAccepted},
    {"tx_packets", &SlipringQueueStats::txPackets},
    {"tx_bytes", &SlipringQueueStats::txBytes},
    {"tx_unfinished", &SlipringQueueStats::txUnfinished},
    {"rx_frames", &SlipringQueueStats::rxFrames},
    {"rx_segments", &SlipringQueueStats::rxSegments},
    {"rx_packets", &SlipringQueueStats::rxPackets},
    {"rx_bytes", &SlipringQueueStats::rxBytes},
    {"rx_checksums", &SlipringQueueStats::rxChecksums},
    {"tx_syncs", &SlipringQueueStats::txSyncs},
    {"rx_bursts", &SlipringQueueStats::rxBursts},
    {"port_drops", &SlipringQueueStats::portDrops},
    {"rx_overruns", &SlipringQueueStats::rxOverruns},
    {"stops", &SlipringQueueStats::stops},
    {"wakes", &SlipringQueueStats::wakes},
    {"limit_stops", &SlipringQueueStats::limitStops},
    {"stalls", &SlipringQueueStats::stalls},
};

constexpr const char* DROP_NAMES[SLIPRING_DROP_REASONS] = {
    "tx_link_down",
    "tx_too_long",
    "tx_ring_full",
    "tx_queue_stopped",
    "rx_too_short",
    "rx_too_long",
    "rx_incomplete",
    "rx_overrun",
    "rx_lost_at_stop",
};

} // namespace

const char*
SlipringDropName(SlipringDropReason reason)
{
    return DROP_NAMES[static_cast<std::size_t>(reason)];
}

SlipringQueueStats&
SlipringQueueStats::operator+=(const SlipringQueueStats& other)
{
    for (const Field& field : FIELDS)
    {
        this->*field.member += other.*field.member;
    }
    for (std::size_t i = 0; i < drops.size(); i++)
    {
        drops[i] += other.drops[i];
    }
    return *this;
}

std::ostream&
operator<<(std::ostream& os, const SlipringQueueStats& stats)
{
    const char* separator = "";
    for (const Field& field : FIELDS)
    {
        os << separator << field.name << "=" << stats.*field.member;
        separator = " ";
    }
    for (std::size_t i = 0; i < stats.drops.size(); i++)
    {
        os << " drop_" << DROP_NAMES[i] << "=" << stats.drops[i];
    }
    return os;
}

} // namespace ns3
