// SPDX-License-Identifier: GPL-2.0-only
//
// Installs a point-to-point link from a TOML file between two nodes.

#ifndef SLIPRING_LINK_HELPER_H
#define SLIPRING_LINK_HELPER_H

#include "ns3/net-device-container.h"
#include "ns3/node.h"
#include "ns3/object-factory.h"

#include <string>

namespace ns3
{

class SlipringLinkChannel;

/**
 * \ingroup slipring-net-device
 * Connects two nodes by point-to-point devices and a SlipringLinkChannel.
 *
 * The devices send at 10 Gb/s unless told otherwise: the file describes the link, and the device
 * only the network card in front of it. PointToPointHelper::EnablePcap works with these devices.
 */
class SlipringLinkHelper
{
  public:
    SlipringLinkHelper();

    /**
     * Sets an attribute of both devices.
     * \param name of the attribute of PointToPointNetDevice
     * \param value to set
     */
    void SetDeviceAttribute(std::string name, const AttributeValue& value);
    /**
     * Sets an attribute of the links.
     * \param name of the attribute of SlipringLink: Seed, Start, MaxBytes
     * \param value to set
     */
    void SetLinkAttribute(std::string name, const AttributeValue& value);

    /**
     * Connects two nodes by the links in a file. Ends the program if the file is invalid.
     * \param a the node at the first port of the file
     * \param b the node at the second port
     * \param path the file
     * \return the two devices
     */
    NetDeviceContainer Install(Ptr<Node> a, Ptr<Node> b, const std::string& path) const;
    /**
     * Connects two nodes by the links in a file.
     * \param a the node at the first port of the file
     * \param b the node at the second port
     * \param path the file
     * \param error what failed, why, and what to try next
     * \return the two devices; none after an error
     */
    NetDeviceContainer TryInstall(Ptr<Node> a,
                                  Ptr<Node> b,
                                  const std::string& path,
                                  std::string& error) const;
    /**
     * Connects two nodes by the links in a text, as TryInstall does.
     * \param a the node at the first port
     * \param b the node at the second port
     * \param toml the text
     * \param error what failed, why, and what to try next
     * \return the two devices; none after an error
     */
    NetDeviceContainer TryInstallText(Ptr<Node> a,
                                      Ptr<Node> b,
                                      const std::string& toml,
                                      std::string& error) const;

  private:
    /// \return a channel without links
    Ptr<SlipringLinkChannel> MakeChannel() const;
    /// \return a new device of \p node at \p channel
    Ptr<NetDevice> MakeDevice(Ptr<Node> node, Ptr<SlipringLinkChannel> channel) const;

    /**
     * Connects two nodes by a channel.
     * \param loaded whether its links were loaded
     * \param a the node at the first port
     * \param b the node at the second port
     * \param channel the channel
     * \param error what failed, why, and what to try next
     * \return the two devices; none if the links were not loaded
     */
    NetDeviceContainer Finish(bool loaded,
                              Ptr<Node> a,
                              Ptr<Node> b,
                              Ptr<SlipringLinkChannel> channel,
                              std::string& error) const;

    ObjectFactory m_device; //!< Makes devices.
    ObjectFactory m_link;   //!< Makes engines.
};

} // namespace ns3

#endif // SLIPRING_LINK_HELPER_H
