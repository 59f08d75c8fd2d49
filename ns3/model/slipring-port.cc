/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-port.h"

#include <cstring>
#include <slipring.h>

namespace ns3
{

SlipringError
SlipringError::FromLibrary(int status)
{
    SlipringError error;
    switch (status)
    {
    case SLIPRING_ERR_MACHINE:
        error.kind = MACHINE;
        break;
    case SLIPRING_ERR_PEER:
        error.kind = PEER;
        break;
    case SLIPRING_ERR_DEFECT:
        error.kind = DEFECT;
        break;
    default:
        error.kind = USAGE;
    }
    error.code = slipring_error_code();
    error.message = slipring_error_message();
    error.help = slipring_error_help();
    return error;
}

std::ostream&
operator<<(std::ostream& os, const SlipringError& error)
{
    if (!error.code.empty())
    {
        os << error.code << ": ";
    }
    os << error.message;
    if (!error.help.empty())
    {
        os << "; try: " << error.help;
    }
    return os;
}

namespace
{

/// Returns the options of libslipring. They refer to texts of `wanted`.
slipring_options
LibraryOptions(const SlipringPortOptions& wanted)
{
    slipring_options options;
    std::memset(&options, 0, sizeof(options));
    options.size = sizeof(options);
    options.slots = wanted.slots;
    options.flags = (wanted.sharedWithHost ? SLIPRING_OPEN_SHARED : 0) |
                    (wanted.promiscuous ? 0 : SLIPRING_OPEN_NO_PROMISC);
    options.run_dir = wanted.runDir.empty() ? nullptr : wanted.runDir.c_str();
    return options;
}

} // namespace

std::unique_ptr<SlipringPort>
SlipringPort::Open(const std::string& name, const SlipringPortOptions& wanted, SlipringError& error)
{
    slipring_options options = LibraryOptions(wanted);
    slipring_port* port = nullptr;
    int status = slipring_open(name.c_str(), &options, &port);
    if (status < 0)
    {
        error = SlipringError::FromLibrary(status);
        return nullptr;
    }
    return std::unique_ptr<SlipringPort>(new SlipringPort(port, !wanted.runDir.empty(), -1));
}

std::unique_ptr<SlipringPort>
SlipringPort::OpenAtSwitch(slipring_switch* owner,
                           const std::string& name,
                           const SlipringPortOptions& wanted,
                           SlipringError& error)
{
    slipring_options options = LibraryOptions(wanted);
    slipring_port* port = nullptr;
    int status = slipring_switch_open(owner, name.c_str(), &options, &port);
    if (status < 0)
    {
        error = SlipringError::FromLibrary(status);
        return nullptr;
    }
    return std::unique_ptr<SlipringPort>(new SlipringPort(port, false, status));
}

SlipringPort::SlipringPort(slipring_port* port, bool shared, int switchNumber)
    : m_port(port),
      m_queues(0),
      m_mtu(0),
      m_maxFrame(0),
      m_shared(shared),
      m_switchNumber(switchNumber)
{
    // `struct` is needed, because a function has the same name.
    struct slipring_port_info info;
    info.size = sizeof(info);
    if (slipring_port_info(port, &info) == 0)
    {
        m_queues = info.queues;
        m_mtu = info.mtu;
        m_maxFrame = info.max_packet;
    }
}

SlipringPort::~SlipringPort()
{
    slipring_close(m_port);
}

std::string
SlipringPort::GetKind() const
{
    return slipring_port_kind(m_port);
}

std::string
SlipringPort::GetMode() const
{
    return slipring_port_mode(m_port);
}

uint64_t
SlipringPort::GetDrops(uint32_t queue) const
{
    struct slipring_stats stats;
    stats.size = sizeof(stats);
    return ::slipring_stats(m_port, queue, &stats) == 0 ? stats.dropped : 0;
}

bool
SlipringPort::IsDeterministic() const
{
    std::string kind = GetKind();
    return m_switchNumber >= 0 || (!m_shared && (kind == "pipe" || kind == "null" || kind == "pcap"));
}

std::string
SlipringPort::GetPipeKey() const
{
    std::string name = slipring_port_name(m_port);
    std::size_t mark = name.find_first_of("{}");
    if (mark == std::string::npos || m_shared)
    {
        return "";
    }
    std::size_t end = name.find('@', mark);
    std::size_t start = name.rfind("netmap:", 0) == 0 ? std::strlen("netmap:") : 0;
    return name.substr(start, mark - start) + "|" + name.substr(mark + 1, end - mark - 1);
}

} // namespace ns3
