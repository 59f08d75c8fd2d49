/*
 * SPDX-License-Identifier: GPL-2.0-only
 */

#include "slipring-private-access.h"

namespace ns3
{

namespace
{

/// Stands for the private member function FdNetDevice::ForwardUp
struct ForwardUpMember
{
    /// Type of the member
    typedef void (FdNetDevice::*Type)();
    /// Found by argument-dependent lookup; defined by MemberAccess
    friend Type Get(ForwardUpMember);
};

/// Stands for the private member FdNetDevice::m_macTxDropTrace
struct MacTxDropMember
{
    /// Type of the member
    typedef TracedCallback<Ptr<const Packet>> FdNetDevice::*Type;
    /// Found by argument-dependent lookup; defined by MemberAccess
    friend Type Get(MacTxDropMember);
};

/// Defines the function Get that returns the pointer to a private member
template <typename Member, typename Member::Type POINTER>
struct MemberAccess
{
    friend typename Member::Type Get(Member)
    {
        return POINTER;
    }
};

template struct MemberAccess<ForwardUpMember, &FdNetDevice::ForwardUp>;
template struct MemberAccess<MacTxDropMember, &FdNetDevice::m_macTxDropTrace>;

} // namespace

void
SlipringForwardUp(FdNetDevice& device)
{
    (device.*Get(ForwardUpMember()))();
}

void
SlipringFireMacTxDrop(FdNetDevice& device, Ptr<const Packet> packet)
{
    (device.*Get(MacTxDropMember()))(packet);
}

} // namespace ns3
