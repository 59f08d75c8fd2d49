/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_PORT_H
#define SLIPRING_PORT_H

#include "slipring-error.h"

#include <cstdint>
#include <memory>
#include <string>

struct slipring_port;
struct slipring_switch;

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief How a port is opened.
 */
struct SlipringPortOptions
{
    uint32_t slots{0};         //!< slots of each ring; 0: libslipring's default
    bool sharedWithHost{false}; //!< whether the host's stack goes on using the interface
    bool promiscuous{true};    //!< whether frames for other hosts are received
    std::string runDir;        //!< run directory of the daemon; empty: pipes of this process
};

/**
 * \ingroup slipring-net-device
 * \brief An open port of libslipring. Closes it when destroyed.
 *
 * Only the simulator thread calls its functions.
 */
class SlipringPort
{
  public:
    /**
     * Opens a port.
     * \param name the port's name, such as "netmap:eth1" or "lan{1"
     * \param options how to open it
     * \param error receives the reason if the port cannot be opened
     * \return the port, or null
     */
    static std::unique_ptr<SlipringPort> Open(const std::string& name,
                                              const SlipringPortOptions& options,
                                              SlipringError& error);

    /**
     * Opens a port of a switch of this process.
     * \param owner the switch
     * \param name the port's name in the switch, such as "a"
     * \param options how to open it
     * \param error receives the reason if the port cannot be opened
     * \return the port, or null
     */
    static std::unique_ptr<SlipringPort> OpenAtSwitch(slipring_switch* owner,
                                                      const std::string& name,
                                                      const SlipringPortOptions& options,
                                                      SlipringError& error);

    ~SlipringPort();
    SlipringPort(const SlipringPort&) = delete;
    SlipringPort& operator=(const SlipringPort&) = delete;

    /**
     * \return the port of libslipring
     */
    slipring_port* Get() const
    {
        return m_port;
    }

    /**
     * \return the number of queues; each has a tx and an rx ring
     */
    uint32_t GetQueues() const
    {
        return m_queues;
    }

    /**
     * \return the MTU in bytes; 0 if the port has none
     */
    uint32_t GetMtu() const
    {
        return m_mtu;
    }

    /**
     * \return length in bytes of the longest frame, over several slots
     */
    uint32_t GetMaxFrame() const
    {
        return m_maxFrame;
    }

    /**
     * \return the kind of the port: "pipe", "packet", ...
     */
    std::string GetKind() const;

    /**
     * \return the mode in use: "key=value ..."
     */
    std::string GetMode() const;

    /**
     * \param queue number of a queue
     * \return frames that the port has dropped, for all reasons
     */
    uint64_t GetDrops(uint32_t queue) const;

    /**
     * \return whether another process may write the memory of the rings
     */
    bool IsShared() const
    {
        return m_shared;
    }

    /**
     * \return the number of the port in a switch of this process; negative for other ports
     */
    int GetSwitchNumber() const
    {
        return m_switchNumber;
    }

    /**
     * \return whether simulator events alone can serve the port: both ends are in this process,
     *         and nothing happens between two calls
     */
    bool IsDeterministic() const;

    /**
     * \return what the two ends of a pipe of this process have in common; empty for other ports
     */
    std::string GetPipeKey() const;

  private:
    /**
     * \param port the port of libslipring, which this object then owns
     * \param shared whether another process may write the rings
     * \param switchNumber number of the port in a switch of this process, or negative
     */
    SlipringPort(slipring_port* port, bool shared, int switchNumber);

    slipring_port* m_port; //!< the port of libslipring
    uint32_t m_queues;     //!< number of queues
    uint32_t m_mtu;        //!< MTU in bytes, or 0
    uint32_t m_maxFrame;   //!< longest frame in bytes
    bool m_shared;         //!< whether another process may write the rings
    int m_switchNumber;    //!< number in a switch of this process, or negative
};

} // namespace ns3

#endif /* SLIPRING_PORT_H */
