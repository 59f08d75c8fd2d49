/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#ifndef SLIPRING_NET_DEVICE_HELPER_H
#define SLIPRING_NET_DEVICE_HELPER_H

#include "ns3/emu-fd-net-device-helper.h"
#include "ns3/fd-net-device-helper.h"
#include "ns3/net-device-container.h"
#include "ns3/node-container.h"
#include "ns3/nstime.h"
#include "ns3/object-factory.h"
#include "ns3/slipring-error.h"
#include "ns3/slipring-net-device.h"

#include <string>
#include <vector>

namespace ns3
{

/**
 * \ingroup slipring-net-device
 * \brief What TryInstall has done: devices, or an error and no device.
 */
struct SlipringInstallResult
{
    NetDeviceContainer devices; //!< the devices; empty if there is an error
    SlipringError error;        //!< the error; its kind is NONE after success

    /**
     * \return true after success
     */
    explicit operator bool() const
    {
        return error.kind == SlipringError::NONE;
    }
};

/**
 * \ingroup slipring-net-device
 * \brief Installs devices with ports of slipring on nodes.
 *
 * The functions Install end the program with a message if a port cannot be opened; those named
 * TryInstall return the error.
 */
class SlipringNetDeviceHelper : public FdNetDeviceHelper
{
  public:
    SlipringNetDeviceHelper();

    /**
     * \param portName name of the port of the next devices
     */
    explicit SlipringNetDeviceHelper(const std::string& portName);

    /**
     * Sets an attribute of the next devices.
     * \param name name of the attribute
     * \param value its value
     */
    void SetAttribute(std::string name, const AttributeValue& value);

    /**
     * \param portName name of the port of the next devices
     */
    void SetPortName(const std::string& portName);

    /**
     * Sets the port, as SetPortName, or the interface whose port netmap:IF is used. Helpers of ns-3
     * have a function of this name.
     * \param deviceName name of an interface or of a port
     */
    void SetDeviceName(std::string deviceName);

    /**
     * Installs a device on a node.
     * \param node the node
     * \return the device, or the error
     */
    SlipringInstallResult TryInstall(Ptr<Node> node) const;

    /**
     * Installs a pipe between two nodes, with a device on each.
     * \param a the first node
     * \param b the second node
     * \param name name of the pipe; empty: a name that no other pipe of this process has
     * \return the two devices, or the error
     */
    SlipringInstallResult TryInstallPipe(Ptr<Node> a, Ptr<Node> b, std::string name = "") const;

    /**
     * Installs a pipe between two nodes, as TryInstallPipe.
     * \param a the first node
     * \param b the second node
     * \param name name of the pipe
     * \return the two devices
     */
    NetDeviceContainer InstallPipe(Ptr<Node> a, Ptr<Node> b, std::string name = "") const;

    /**
     * Installs a device on each node, at a learning switch: one of this process under the default
     * simulator, else one of a daemon.
     * \param nodes the nodes
     * \param switchName name of the switch, such as "vale0"
     * \return the devices, or the error
     */
    SlipringInstallResult TryInstallSwitch(const NodeContainer& nodes,
                                           const std::string& switchName) const;

    /**
     * Installs a device on each node, as TryInstallSwitch.
     * \param nodes the nodes
     * \param switchName name of the switch
     * \return the devices
     */
    NetDeviceContainer InstallSwitch(const NodeContainer& nodes,
                                     const std::string& switchName) const;

    /**
     * Selects the real-time simulator, and makes ns-3 compute checksums. Must be called before
     * the first node is created.
     * \param bestEffort whether a late simulation goes on; otherwise it ends at a lag of `limit`
     * \param limit limit of the lag, beyond which devices warn
     */
    static void EnableRealtime(bool bestEffort = true, Time limit = MilliSeconds(100));

  protected:
    Ptr<NetDevice> InstallPriv(Ptr<Node> node) const override;

  private:
    /**
     * Installs a device on each node. All ports are opened before the first node gets a device.
     * \param nodes the nodes
     * \param portNames for each node, the name of its port; empty: that of the attributes
     * \return the devices; none, and the error, if a port cannot be opened
     */
    SlipringInstallResult InstallAll(const NodeContainer& nodes,
                                     const std::vector<std::string>& portNames) const;

    /**
     * Creates a device with an open port.
     * \param portName name of the port; empty: that of the attributes
     * \param error receives the reason if the port cannot be opened
     * \return the device, or null
     */
    Ptr<SlipringNetDevice> CreateOpen(const std::string& portName, SlipringError& error) const;

    /**
     * Gives a device with an open port to a node.
     * \param node the node
     * \param device the device
     */
    static void Attach(Ptr<Node> node, Ptr<SlipringNetDevice> device);

    ObjectFactory m_factory; //!< makes the devices
};

/**
 * \ingroup slipring-net-device
 * \brief ns-3's helper for interfaces of the host, with a mode that uses ports of slipring.
 *
 * In the other mode, which is the default, it installs FdNetDevice with a packet socket that this
 * process opens itself: distributions install ns-3's set-uid programs where the library does not
 * find them, or not at all. The interface is put into promiscuous mode, which ns-3 demands.
 */
class SlipringEmuFdNetDeviceHelper : public EmuFdNetDeviceHelper
{
  public:
    /**
     * \param enable whether the next devices use ports of slipring
     */
    void SetNetmapMode(bool enable = true);

    /**
     * Installs a device on a node.
     * \param node the node
     * \return the device, or the error
     */
    SlipringInstallResult TryInstall(Ptr<Node> node) const;

  protected:
    Ptr<NetDevice> InstallPriv(Ptr<Node> node) const override;
    int CreateFileDescriptor() const override;

  private:
    /**
     * Opens a packet socket, and puts the interface into promiscuous mode.
     * \param error receives the reason if that fails
     * \return the socket, or -1
     */
    int OpenSocket(SlipringError& error) const;

    bool m_netmapMode{false}; //!< whether the next devices use ports of slipring
};

} // namespace ns3

#endif /* SLIPRING_NET_DEVICE_HELPER_H */
